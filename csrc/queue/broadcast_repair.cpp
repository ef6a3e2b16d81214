#include "queue/broadcast_repair.hpp"

#include <algorithm>
#include <optional>

#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

// The spare entry is of a message that was not counted, or of the one that left the window when the
// last message was counted. No reader finds it in either case.
void repair_tail(const BroadcastRing& ring, TicketCanceller& tickets) {
  const QueueEnd& end = ring.header().tail;
  const std::uint64_t tail = end.count.load();
  if (tail != 0) ring.entry(tail - 1).bytes.store(end.bytes_of(tail));
  tickets.cancel_named(ring.entry(tail).ticket);
}

// A dead process may have been the last that had to read a message, or the one that found that it
// was.
void cancel_passed(const BroadcastRing& ring, TicketCanceller& tickets) {
  const std::uint64_t tail = ring.header().tail.count.load();
  const std::uint64_t end = ring.first_needed(tail);
  for (std::uint64_t number = tail - std::min(tail, ring.limit()); number < end; ++number) {
    const std::optional<NamedTicket> named = ring.ticket_of(number);
    if (named && tickets.is_live(*named)) tickets.cancel(*named);
  }
}

}  // namespace

void repair_broadcast(const BroadcastRing& ring, const SlotSet& dead, TicketCanceller& tickets) {
  BroadcastHeader& header = ring.header();
  OwnerLock tail(header.tail.lock);
  if (dead.has(tail.owner())) {
    repair_tail(ring, tickets);
    tail.unlock_for_dead();
  }
  for (ReaderRecord& reader : header.readers) {
    if (dead.has(reader.slot())) reader.owner.store(0);
  }
  cancel_passed(ring, tickets);
  tail.wake_waiters();
  for (Atomic<std::uint32_t>* word : {&header.getters, &header.putters}) {
    WaitFlag(*word).wake_everyone();
  }
}

}  // namespace shmtensor
