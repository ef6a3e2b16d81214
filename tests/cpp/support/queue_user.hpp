// A process of a session that uses a queue.
#pragma once

#include <optional>

#include "channel/queue.hpp"
#include "support/channel_user.hpp"

namespace shmtensor::testing {

/// A member of the session with one queue.
class QueueUser : public ChannelUser<Queue, QueueHeader> {
 public:
  using ChannelUser::ChannelUser;

  void make(std::uint64_t limit, Strategy strategy = Strategy::file_descriptor,
            bool redelivers = false) {
    const Block block = session_->allocate(Queue::bytes(redelivers), strategy);
    Queue::create(block, {.limit = limit, .redelivers = redelivers});
    open(block);
  }

  Attempt put(std::uint64_t number, bool with_block,
              std::chrono::nanoseconds time = std::chrono::hours(1),
              Strategy strategy = Strategy::file_descriptor) {
    return put_number(number, with_block, time, strategy,
                      [this](const Outgoing& message, ChannelCall& call) {
                        return channel_->try_put(message, call);
                      });
  }
  /// If the queue redelivers, completes what was taken before.
  Attempt take(Letter& letter, std::chrono::nanoseconds time = std::chrono::hours(1)) {
    if (channel_->redelivers()) channel_->complete_all();
    return take_letter(*channel_, letter, time);
  }
  /// The number of the next message; nothing if there is none at present.
  std::optional<std::uint64_t> next() {
    for (int i = 0; i < 1000; ++i) {
      Letter letter;
      const Attempt result =
          take(letter, std::chrono::milliseconds(channel_->size() != 0 ? 100 : 0));
      if (result == Attempt::done) return letter.number;
      if (result == Attempt::empty || result == Attempt::shut_down) return std::nullopt;
    }
    return std::nullopt;
  }

  [[nodiscard]] Queue& queue() noexcept { return *channel_; }
};

using QueueTest = ChannelTest<QueueUser>;

}  // namespace shmtensor::testing
