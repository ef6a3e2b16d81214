// A process of a session that uses a broadcast.
#pragma once

#include <memory>
#include <optional>

#include "channel/broadcast.hpp"
#include "support/channel_user.hpp"

namespace shmtensor::testing {

/// A member of the session with one broadcast.
class BroadcastUser : public ChannelUser<Broadcast, BroadcastHeader> {
 public:
  using ChannelUser::ChannelUser;

  void make(std::uint64_t limit, OnFull on_full = OnFull::block,
            Strategy strategy = Strategy::file_descriptor) {
    const Block block = session_->allocate(BroadcastHeader::bytes(limit), strategy);
    Broadcast::create(block, {.limit = limit, .on_full = on_full});
    open(block);
  }
  [[nodiscard]] std::unique_ptr<BroadcastReader> reader() {
    return std::make_unique<BroadcastReader>(*channel_);
  }

  /// Also `done` if the message has no reader.
  Attempt put(std::uint64_t number, bool with_block,
              std::chrono::nanoseconds time = std::chrono::hours(1),
              Strategy strategy = Strategy::file_descriptor) {
    const Attempt result = put_number(number, with_block, time, strategy,
                                      [this](const Outgoing& message, ChannelCall& call) {
                                        return channel_->try_put(message, call);
                                      });
    return result == Attempt::no_reader ? Attempt::done : result;
  }
  Attempt take(BroadcastReader& reader, Letter& letter,
               std::chrono::nanoseconds time = std::chrono::hours(1)) {
    return take_letter(reader, letter, time);
  }
  /// The number of the reader's next message; nothing if there is none at present.
  std::optional<std::uint64_t> next(BroadcastReader& reader) {
    Letter letter;
    const auto time = std::chrono::seconds(reader.lag() != 0 ? 30 : 0);
    return take(reader, letter, time) == Attempt::done ? std::optional(letter.number)
                                                       : std::nullopt;
  }

  [[nodiscard]] Broadcast& broadcast() noexcept { return *channel_; }
};

using BroadcastTest = ChannelTest<BroadcastUser>;

}  // namespace shmtensor::testing
