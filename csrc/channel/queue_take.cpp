// The end of a queue at which messages are taken. All members are called with its lock.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "channel/channel_call.hpp"
#include "channel/hold_message.hpp"
#include "channel/queue.hpp"
#include "os/fault_point.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

Access access_of(const MessageEntry& entry) noexcept {
  const Access access = entry.access.load(std::memory_order_relaxed);
  return access == Access::read_only ? Access::read_only : Access::read_write;
}

}  // namespace

// A message whose ticket is consumed was taken by a process that was killed before it counted it.
//
// The stage is read before the count: what was put before the shutdown is taken after it. The count
// is read before the rings: a producer that begins a ring counts the first message there last, so
// the ring of a message that was counted is known.
//
// The claim is written for a message that is not consumed: of several processes with one claim,
// none or the last one consumed the message.
//
// Of a queue that redelivers, messages that were returned are taken first. Whether another consumer
// owns one is read before those are looked for: if its owner dies in between, they include it.
Attempt Queue::take_locked(Incoming& message, ChannelCall& call) {
  if (lacks_pipe(QueueEvent::room)) return Attempt::pipe;
  for (;;) {
    const bool stopped = is_shut_down();
    const bool owned = kept_.any_owned();
    if (const auto returned = kept_.find_first_returned()) {
      if (const auto taken = take_returned(*returned, message, call)) return *taken;
      continue;
    }
    const std::uint64_t head = header_.head.count.load();
    const std::uint64_t tail = header_.tail.count.load();
    if (const Attempt lack = retire_rings(call, head); lack != Attempt::done) return lack;
    if (head == tail) {
      if (!stopped || owned) return Attempt::empty;
      if (const auto end = call.at_end(header_.tail, tail)) return *end;
      continue;
    }
    const std::optional<std::uint32_t> record = kept_ ? kept_.find_free() : std::nullopt;
    if (kept_ && !record) return Attempt::empty;
    const std::uint32_t number = header_.head.ring.load();
    const bool last = number == header_.tail.ring.load();
    const std::uint64_t end = last ? tail : header_.ring(number + 1).start.load();
    const Ring ring = ring_at(header_, number, call);
    if (!ring) {
      const std::optional<ArenaNumber> gone = call.gone_arena(header_.ring(number));
      if (!gone) return Attempt::unmapped;
      count_taken(end, last ? header_.tail.bytes_of(end) : header_.ring(number + 1).bytes.load());
      count_lost(end - head);
      WaitFlag(header_.putters).wake_everyone();
      throw_lost(*gone);
    }
    if (end - head > ring.room()) throw_damaged();
    MessageEntry& entry = ring.entry(head);
    const std::optional<TakenFrom> from = read(entry, message, call);
    if (!from) return Attempt::unmapped;
    const auto& [named, arena] = *from;
    if (claim_ != nullptr && !is_consumed(named)) {
      claim_->store(head + 1);
      SHMTENSOR_FAULT_POINT("queue.take_claimed");
    }
    bool taken = true;
    if (record) {
      taken = keep(entry, *from, *record, head, message);
    } else if (named) {
      message.block = hold_message(session_, arena, *named, true);
      taken = static_cast<bool>(message.block);
    }
    const std::uint64_t bytes = bytes_until(entry, *from, head, taken);
    SHMTENSOR_FAULT_POINT("queue.take_count");
    count_taken(head + 1, bytes);
    if (taken) return Attempt::done;
    WaitFlag(header_.putters).notify(1);
    if (named && call.arena_is_gone(named->arena)) {
      session_.memory().claim(*named);
      count_lost(1);
      throw_lost(named->arena);
    }
    wake_joiners();
  }
}

std::optional<Queue::TakenFrom> Queue::read(const MessageEntry& entry, Incoming& message,
                                            ChannelCall& call) {
  TakenFrom from{.named = entry.ticket.read()};
  message.kind = entry.kind.load(std::memory_order_relaxed);
  message.size =
      std::min<std::uint32_t>(entry.size.load(std::memory_order_relaxed), MessageEntry::kContent);
  std::memcpy(message.content.data(), entry.content.data(), message.size);
  if (!from.named) return from;
  message.access = access_of(entry);
  const auto strategy = static_cast<Strategy>(entry.strategy.load(std::memory_order_relaxed));
  from.arena = call.arena(from.named->arena, strategy);
  if (!call.can_use(from.arena, *from.named, message.access)) return std::nullopt;
  return from;
}

// The sum in the entry is in a cache line that this process needs for nothing else, so it is added
// up if that is possible: a block that contains no tickets is all that its message refers to.
std::uint64_t Queue::bytes_until(const MessageEntry& entry, const TakenFrom& from,
                                 std::uint64_t head, bool taken) const noexcept {
  const std::uint64_t sum =
      header_.head.bytes_of(head) + entry.size.load(std::memory_order_relaxed);
  if (!from.named) return sum;
  const bool is_simple = taken && header_.counts_copies.load(std::memory_order_relaxed) == 0 &&
                         !from.arena->contains_tickets(from.named->block);
  return is_simple ? sum + from.arena->size(from.named->block)
                   : entry.bytes.load(std::memory_order_relaxed);
}

void Queue::count_taken(std::uint64_t head, std::uint64_t bytes) noexcept {
  let_happen(QueueEvent::room, [&] { header_.head.advance(head, bytes); });
}

// If the queue redelivers, a message that is neither in a ring nor kept is done.
void Queue::count_lost(std::uint64_t messages) noexcept {
  if (!kept_) header_.done.fetch_add(messages);
  wake_joiners();
}

bool Queue::is_consumed(const std::optional<NamedTicket>& named) const {
  return named && !session_.memory().is_live(*named);
}

// All messages of the oldest ring were taken. Each step may be repeated: a ticket that is consumed
// keeps nothing, so the block may be another one by then, but an attempt to free it does no harm.
Attempt Queue::retire_rings(ChannelCall& call, std::uint64_t head) {
  for (;;) {
    const std::uint32_t number = header_.head.ring.load();
    if (header_.tail.ring.load() - number >= QueueHeader::kRings) throw_damaged();
    if (number == header_.tail.ring.load() || header_.ring(number + 1).start.load() != head) {
      return Attempt::done;
    }
    const RingRecord& record = header_.ring(number);
    if (const std::optional<NamedTicket> named = record.ticket.read()) {
      Arena* const arena = call.arena(named->arena, record.strategy.load());
      if (arena == nullptr && !call.arena_is_gone(named->arena)) return Attempt::unmapped;
      if (arena != nullptr && named->block < arena->segment().capacity() &&
          named->ticket.sender < kMaxSlots) {
        const TransitTable& transit = session_.memory().transit(named->ticket.sender);
        if (transit.is_live(*named)) {
          arena->set_contents(named->block, {});  // so that any process can free it
        }
        arena->cancel_send(named->block, named->generation, named->ticket);
      }
    }
    header_.head.ring.store(number + 1);
    WaitFlag(header_.putters).notify(1);
  }
}

void Queue::throw_lost(ArenaNumber arena) {
  throw StaleHandle("messages were lost: their arena " + std::to_string(arena) +
                    " no longer exists, because the manager was killed together with all processes "
                    "that had it open");
}

}  // namespace shmtensor
