// The newest message of a broadcast that keeps it, for a process that need not be a reader.
#pragma once

#include <chrono>
#include <cstdint>

#include "channel/broadcast.hpp"

namespace shmtensor {

/// One call that takes the newest message, if it is newer than the first `after` messages.
/// Threads: one.
class NewestMessage {
 public:
  NewestMessage(Broadcast& broadcast, std::uint64_t after) noexcept
      : broadcast_(broadcast), after_(after) {}

  /// Throws StaleHandle if the message was lost together with its arena.
  [[nodiscard]] Attempt try_take(Incoming& message, ChannelCall& call);
  /// As Queue::prepare, after an attempt to take.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);
  void pass_wakeup_on() noexcept {}

  [[nodiscard]] Session& session() const noexcept { return broadcast_.session(); }
  /// How many messages were put until the one that was taken.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  Broadcast& broadcast_;
  const std::uint64_t after_;
  std::uint64_t count_ = 0;
};

}  // namespace shmtensor
