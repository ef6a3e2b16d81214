// The end of a queue at which messages are put. All members are called with its lock.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "channel/channel_call.hpp"
#include "channel/queue.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 31;  // of a ring

// Of a ring that is large enough for all messages.
constexpr std::uint64_t most_entries(std::uint64_t limit) noexcept {
  return limit == 0 ? kMostEntries : std::bit_ceil(std::min(limit + 1, kMostEntries));
}

}  // namespace

// The ticket is named in the entry before it is issued, and the count of messages commits both.
Attempt Queue::put_locked(const Outgoing& message, ChannelCall& call) {
  if (is_shut_down()) return Attempt::shut_down;
  if (lacks_pipe(QueueEvent::message)) return Attempt::pipe;
  const std::uint64_t tail = header_.tail.count.load();
  const std::uint64_t head = header_.head.count.load();
  if (header_.is_full()) return Attempt::full;
  const std::uint32_t number = header_.tail.ring.load();
  const RingRecord& record = header_.ring(number);
  Ring ring = ring_at(header_, number, call);
  const bool is_gone = !ring && call.gone_arena(record);
  if (!ring && !is_gone) return Attempt::unmapped;
  const std::uint64_t used = is_gone ? 0 : tail - std::max(head, ring.start());
  if (used > ring.room()) throw_damaged();  // or a large ring would be made for nothing
  const bool is_full = is_gone || used == ring.room();
  const bool next_is_free = number + 1 - header_.head.ring.load() < QueueHeader::kRings;
  if (is_full && !next_is_free) return Attempt::full;
  if (is_full && !call.ring_) {
    const std::uint64_t entries = is_gone ? QueueHeader::kFirstRing : ring.room() + 1;
    call.entries_ =
        static_cast<std::uint32_t>(std::min(entries * QueueHeader::kGrowth, most_entries(limit())));
    return Attempt::ring;
  }
  // After a rush, the empty queue uses the small ring in its first block again, and the large one
  // is freed by the next process that takes a message.
  const bool returns = !is_full && head == tail && next_is_free && ring.begins_at(tail) &&
                       tail != ring.start() && record.ticket.read();
  if (is_full || returns) {
    begin_ring(number + 1, tail, is_full ? &call.ring_ : nullptr);
    if (is_full) call.used_ring_ = std::move(call.ring_);
    ring = ring_at(header_, number + 1, call);
    if (!ring) throw_damaged();
  }
  MessageEntry& entry = ring.entry(tail);
  if (entry.ticket.name.load(std::memory_order_relaxed) != 0) entry.ticket.clear();
  entry.kind.store(message.kind, std::memory_order_relaxed);
  entry.size.store(static_cast<std::uint16_t>(message.content.size()), std::memory_order_relaxed);
  std::memcpy(entry.content.data(), message.content.data(), message.content.size());
  if (message.block.arena != nullptr) {
    const auto strategy = message.block.arena->segment().strategy();
    entry.strategy.store(static_cast<std::uint8_t>(strategy), std::memory_order_relaxed);
    entry.access.store(message.access, std::memory_order_relaxed);
    static_cast<void>(message.block.arena->send(message.block.number, entry.ticket));
  }
  const bool copies = header_.counts_copies.load(std::memory_order_relaxed) != 0;
  const std::uint64_t added =
      copies ? message.content.size() + message.copied_bytes : message.bytes();
  const std::uint64_t bytes = header_.tail.bytes_of(tail) + added;
  entry.bytes.store(bytes, std::memory_order_relaxed);
  let_happen(QueueEvent::message, [&] {
    SHMTENSOR_FAULT_POINT("queue.put_count");
    header_.tail.advance(tail + 1, bytes);
  });
  return Attempt::done;
}

// A ring without a block is the small one in the queue's first block.
void Queue::begin_ring(std::uint32_t number, std::uint64_t start, const HeldBlock* block) {
  RingRecord& record = header_.ring(number);
  record.ticket.clear();
  record.start.store(start);
  record.bytes.store(header_.tail.bytes_of(start));
  if (block != nullptr) {
    record.strategy.store((*block)->arena->segment().strategy());
    static_cast<void>((*block)->arena->send((*block)->number, record.ticket));
  }
  header_.tail.ring.store(number);
}

}  // namespace shmtensor
