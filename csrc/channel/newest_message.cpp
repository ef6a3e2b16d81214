#include "channel/newest_message.hpp"

#include <optional>

#include "base/error.hpp"
#include "channel/channel_call.hpp"
#include "channel/spin_then_sleep.hpp"

namespace shmtensor {

// Each time this begins again, another message was put.
Attempt NewestMessage::try_take(Incoming& message, ChannelCall& call) {
  session().require_slot();
  for (;;) {
    count_ = broadcast_.count();
    if (count_ <= after_) return Attempt::empty;
    std::optional<NamedTicket> named;
    switch (broadcast_.copy(count_ - 1, message, named, call)) {
      case Broadcast::Step::taken:
        return Attempt::done;
      case Broadcast::Step::lacks_memory:
        return Attempt::unmapped;
      case Broadcast::Step::lost:
        Broadcast::throw_lost();
      case Broadcast::Step::again:
        if (broadcast_.count() != count_) break;
        throw SessionError("a broadcast is damaged: its newest message is not there");
    }
  }
}

void NewestMessage::prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time) {
  if (attempt == Attempt::unmapped) return call.map_missing();
  BroadcastHeader& header = broadcast_.ring_.header();
  spin_then_sleep(
      session(), broadcast_.spin_, header.getters,
      header.tail.processor.load(std::memory_order_relaxed),
      [this] { return broadcast_.count() > after_; }, time);
}

}  // namespace shmtensor
