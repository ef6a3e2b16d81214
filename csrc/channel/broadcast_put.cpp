// The end of a broadcast at which messages are put.
#include <algorithm>
#include <optional>

#include "channel/broadcast.hpp"
#include "channel/channel_call.hpp"
#include "channel/message_entry.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {

Attempt Broadcast::try_put(const Outgoing& message, ChannelCall& call) {
  if (is_closed()) return call.closed();
  std::uint64_t number = 0;
  const Attempt result = call.with_lock(ring_.header().tail, [&] {
    number = ring_.header().tail.count.load();
    return put_locked(message, call);
  });
  if (result != Attempt::done) return result;
  WaitFlag(ring_.header().getters).notify_everyone();
  // Readers that skip do not need the message before any more.
  if (number != 0 && ring_.has_skipping_reader()) release(number - 1);
  // All readers may have left meanwhile. The caller holds the block, and tries to free it.
  if (message.block.arena != nullptr && ring_.have_passed(number + 1)) {
    if (const auto named = ring_.ticket_of(number)) {
      session_.memory().transit(session_.slot()).claim(*named);
    }
  }
  return result;
}

// The ticket is named in the spare entry before it is issued, and the count of messages commits
// both. It makes the entry of the oldest message the spare one.
Attempt Broadcast::put_locked(const Outgoing& message, ChannelCall& call) {
  if (is_shut_down()) return Attempt::shut_down;
  if (readers() == 0 && !ring_.keeps_newest()) return Attempt::no_reader;
  const std::uint64_t tail = ring_.header().tail.count.load();
  if (const Attempt lack = make_room(tail, call); lack != Attempt::done) return lack;
  const MessageEntry& oldest = ring_.entry(tail + 1);
  if (!call.can_cancel(oldest)) return Attempt::unmapped;
  // Readers that skip will not need it; to be mapped now, without the GIL.
  const bool skips = tail != 0 && ring_.has_skipping_reader();
  if (skips && !call.can_cancel(ring_.entry(tail - 1))) return Attempt::unmapped;
  MessageEntry& entry = ring_.entry(tail);
  write_entry(entry, message);
  QueueEnd& end = ring_.header().tail;
  end.advance(tail + 1, end.bytes_of(tail) + message.bytes());
  // Not before: as the spare entry, it has the bytes before the first message. The repair does
  // this, too.
  entry.bytes.store(end.bytes_of(tail + 1), std::memory_order_relaxed);
  call.cancel(oldest);
  return Attempt::done;
}

Attempt Broadcast::make_room(std::uint64_t tail, ChannelCall& call) {
  if (ring_.keeps_newest()) return Attempt::done;
  if (on_full() != OnFull::drop_oldest) return has_room() ? Attempt::done : Attempt::full;
  if (max_bytes() == 0) return Attempt::done;
  std::uint64_t first = std::max(ring_.first_unread(tail), ring_.window(tail));
  for (; first < tail && ring_.bytes_from(first, tail) >= max_bytes(); ++first) {
    const MessageEntry& entry = ring_.entry(first);
    if (!call.can_cancel(entry)) return Attempt::unmapped;
    ring_.header().dropped.store(first + 1);
    call.cancel(entry);
  }
  return Attempt::done;
}

}  // namespace shmtensor
