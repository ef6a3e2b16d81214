#include "queue/repair.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/report.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

// A damaged queue is unlocked like any other: a process that uses it reports the damage.
Ring usable_ring(QueueHeader& queue, std::uint32_t number, TicketCanceller& tickets) {
  try {
    return ring_at(queue, number, tickets);
  } catch (const SessionError& error) {
    report(error.what());
    return {};
  }
}

// A message that was not counted was not put: its ticket is cancelled. So is that of a ring which
// is not in use yet. The record of the next ring may still be that of the oldest one, if all are
// used.
void repair_tail(QueueHeader& queue, TicketCanceller& tickets) {
  const std::uint32_t number = queue.tail.ring.load();
  if (const Ring ring = usable_ring(queue, number, tickets)) {
    tickets.cancel_named(ring.entry(queue.tail.count.load()).ticket);
  }
  if (number + 1 - queue.head.ring.load() < QueueHeader::kRings) {
    tickets.cancel_named(queue.ring(number + 1).ticket);
  }
}

// A message whose ticket was claimed, or that was kept, was taken, so it is counted.
void repair_head(QueueHeader& queue, const KeptMessages& kept, TicketCanceller& tickets) {
  const std::uint64_t head = queue.head.count.load();
  if (head == queue.tail.count.load()) return;
  const Ring ring = usable_ring(queue, ring_of_head(queue, head), tickets);
  if (!ring) return;
  MessageEntry& entry = ring.entry(head);
  TicketRecord& record = entry.ticket;
  if (kept.has(head)) {
    record.clear();
  } else {
    const std::optional<NamedTicket> named = record.read();
    if (!named || tickets.is_live(*named)) return;
  }
  queue.head.advance(head + 1, entry.bytes.load(std::memory_order_relaxed));
}

// A message whose ticket is consumed was completed.
void return_messages(const KeptMessages& kept, const SlotSet& dead, TicketCanceller& tickets) {
  const std::span<KeptRecord> records = kept.used();
  for (std::uint32_t i = 0; i < records.size(); ++i) {
    if (!dead.has(records[i].owner.load() - 1)) continue;
    const std::optional<NamedTicket> named = kept.message(i).ticket.read();
    const bool completed = named && !tickets.is_live(*named);
    if (completed) tickets.cancel(*named);  // frees the block
    records[i].owner.store(completed ? 0 : KeptRecord::kReturned);
  }
}

}  // namespace

void repair_queue(QueueHeader& queue, const KeptMessages& kept, const SlotSet& dead,
                  TicketCanceller& tickets) {
  OwnerLock tail(queue.tail.lock);
  if (dead.has(tail.owner())) {
    repair_tail(queue, tickets);
    tail.unlock_for_dead();
  }
  OwnerLock head(queue.head.lock);
  if (dead.has(head.owner())) {
    repair_head(queue, kept, tickets);
    head.unlock_for_dead();
  }
  return_messages(kept, dead, tickets);
  // Of those that wait, a dead process may have been the one that was woken.
  tail.wake_waiters();
  head.wake_waiters();
  for (Atomic<std::uint32_t>* word : {&queue.getters, &queue.putters, &queue.joiners}) {
    WaitFlag(*word).wake_everyone();
  }
}

}  // namespace shmtensor
