#include "arena/transit.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "arena/session_memory.hpp"
#include "arena/ticket_record.hpp"
#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "os/mutex.hpp"
#include "os/page_reservation.hpp"

namespace shmtensor {
namespace {

constexpr std::uint32_t kAll = 0xffffffff;
constexpr std::uint32_t kNoGroup = 0xffffffff;

constexpr std::uint32_t live_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint64_t high(std::uint32_t value) noexcept { return std::uint64_t{value} << 32; }

struct GroupLink {
  std::uint32_t index;
  std::uint32_t serial;

  static constexpr std::uint64_t pack(std::uint32_t index, std::uint32_t serial) noexcept {
    return high(index + 1) | serial;
  }
  explicit constexpr GroupLink(std::uint64_t bits) noexcept
      : index(static_cast<std::uint32_t>(bits >> 32) - 1), serial(live_of(bits)) {}
};

}  // namespace

// A reader may be at a group that the sender unlinks and reuses at the same time. Reuse changes the
// serial first, and a link carries the serial that it expects, so the reader detects the change and
// starts again. A group that was only unlinked still links to its successor. A group with a live
// ticket is never unlinked, so it is found if it was linked before the search began.
bool TransitTable::has_live(ArenaNumber arena, BlockNumber block,
                            Generation generation) const noexcept {
  const std::uint64_t key = block_key(arena, block);
  const auto& bucket = buckets[bucket_of(key)];
  for (std::uint32_t steps = 0; steps < 4 * kGroups;) {
    std::uint64_t bits = bucket.load();
    bool moved = false;
    while (bits != 0 && !moved && ++steps < 4 * kGroups) {
      const GroupLink link(bits);
      if (link.index >= kGroups) return true;
      const TicketGroup& group = groups[link.index];
      const bool match = group.block.load() == key &&
                         static_cast<Generation>(group.mark.load() >> 32) == generation;
      bits = group.next.load();
      const std::uint64_t word = group.word.load();
      moved = serial_of(word) != link.serial;
      if (!moved && match && live_of(word) != 0) return true;
    }
    if (bits == 0 && !moved) return false;
  }
  return true;
}

// As in `claim`: the word is read before and after what is constant while it is.
bool TransitTable::is_live(const NamedTicket& named) const noexcept {
  const Ticket& ticket = named.ticket;
  if (ticket.group >= kGroups || ticket.group >= group_count.load()) return false;
  const TicketGroup& group = groups[ticket.group];
  const auto live = [&] {
    const std::uint64_t word = group.word.load();
    return serial_of(word) == ticket.serial && (live_of(word) & 1u << ticket.bit % 32) != 0;
  };
  return live() && group.block.load() == block_key(named.arena, named.block) &&
         static_cast<Generation>(group.mark.load() >> 32) == named.generation && live();
}

void TransitTable::keep(const Ticket& ticket, std::uint32_t mark) noexcept {
  if (ticket.group >= kGroups) return;
  Atomic<std::uint64_t>& stored = groups[ticket.group].mark;
  stored.store(high(static_cast<Generation>(stored.load() >> 32)) | mark);
}

void TransitTable::end_sender() noexcept {
  for_each_live([](std::uint32_t, TicketGroup& group, std::uint32_t live) {
    if (static_cast<std::uint32_t>(group.mark.load()) == TicketGroup::kOfSender) {
      group.word.fetch_and(~std::uint64_t{live});
    }
  });
}

TransitWriter::TransitWriter(const SessionMemory& memory, SlotNumber sender)
    : memory_(memory),
      table_(memory.transit(sender)),
      sender_(sender),
      reserved_(sizeof(TransitTable) / TransitTable::kStride, false) {
  reserve_stride(0);
  // Groups of an earlier process in this slot are treated as full: their tickets are only consumed.
  private_.resize(std::min(table_.group_count.load(), TransitTable::kGroups));
}

Ticket TransitWriter::issue(ArenaNumber arena, BlockNumber block, Generation generation,
                            TicketOf of) {
  const LockGuard guard(lock_);
  const std::uint64_t key = TransitTable::block_key(arena, block);
  const std::uint32_t second =
      of == TicketOf::arguments ? TicketGroup::kOfSender : coarse_seconds();
  const Ticket ticket = prepare(key, generation, second, of != TicketOf::message);
  publish(ticket);
  return ticket;
}

Ticket TransitWriter::issue(ArenaNumber arena, BlockNumber block, Generation generation,
                            TicketRecord& record) {
  const LockGuard guard(lock_);
  const std::uint64_t key = TransitTable::block_key(arena, block);
  const Ticket ticket = prepare(key, generation, TicketGroup::kKept, true);
  record.write({arena, block, generation, ticket});
  publish(ticket);
  return ticket;
}

Ticket TransitWriter::prepare(std::uint64_t key, Generation generation, std::uint32_t second,
                              bool alone) {
  const std::uint64_t mark = high(generation) | second;
  Atomic<std::uint64_t>& bucket = bucket_of(key);
  std::uint32_t index =
      alone ? kNoGroup : find_group(bucket.load(std::memory_order_relaxed), key, generation);
  if (index == kNoGroup) {  // a new group at the head of the chain
    index = take_group(bucket);
    TicketGroup& group = table_.groups[index];
    // The new serial is stored first, and each store is a release: a reader that sees any new field
    // also sees the new serial.
    const std::uint64_t word = high(serial_of(group.word.load(std::memory_order_relaxed)) + 1);
    group.word.store(word, std::memory_order_release);
    group.block.store(key, std::memory_order_release);
    group.mark.store(mark, std::memory_order_release);
    group.next.store(bucket.load(std::memory_order_relaxed), std::memory_order_release);
    private_[index] = {0, false, alone};
    SHMTENSOR_FAULT_POINT("send.group_ready");
    bucket.store(GroupLink::pack(index, serial_of(word)));
  } else {
    table_.groups[index].mark.store(mark, std::memory_order_relaxed);  // same generation, later
                                                                       // time
  }
  const auto bit = static_cast<std::uint8_t>(std::countr_one(private_[index].issued));
  private_[index].issued |= 1u << bit;
  return {sender_, bit, index,
          serial_of(table_.groups[index].word.load(std::memory_order_relaxed))};
}

void TransitWriter::publish(const Ticket& ticket) noexcept {
  table_.groups[ticket.group].word.fetch_or(std::uint64_t{1} << ticket.bit);
}

void TransitWriter::prefetch_bucket(ArenaNumber arena, BlockNumber block) const noexcept {
  const std::uint64_t key = TransitTable::block_key(arena, block);
  prefetch_to_write(&table_.buckets[TransitTable::bucket_of(key)]);
}

void TransitWriter::prefetch_group(ArenaNumber arena, BlockNumber block) const noexcept {
  const std::uint64_t key = TransitTable::block_key(arena, block);
  const std::uint64_t bits =
      table_.buckets[TransitTable::bucket_of(key)].load(std::memory_order_relaxed);
  prefetch_to_write(&table_.groups[GroupLink(bits).index % TransitTable::kGroups]);
}

void TransitWriter::reserve(ArenaNumber arena, BlockNumber block) {
  const LockGuard guard(lock_);
  static_cast<void>(bucket_of(TransitTable::block_key(arena, block)));
}

Atomic<std::uint64_t>& TransitWriter::bucket_of(std::uint64_t key) {
  const std::uint32_t bucket = TransitTable::bucket_of(key);
  reserve_stride(offsetof(TransitTable, buckets) + bucket * sizeof table_.buckets[0]);
  return table_.buckets[bucket];
}

// Finds a group of this block with unused bits. Other processes can write the chain. So a link to a
// group that was never created counts as its end, and the search follows at most as many links as
// there are groups.
std::uint32_t TransitWriter::find_group(std::uint64_t first, std::uint64_t key,
                                        Generation generation) const noexcept {
  std::uint64_t bits = first;
  for (std::size_t steps = 0; bits != 0 && steps < private_.size(); ++steps) {
    const std::uint32_t index = GroupLink(bits).index;
    if (index >= private_.size()) break;
    const TicketGroup& group = table_.groups[index];
    if (private_[index].issued != kAll && !private_[index].alone &&
        group.block.load(std::memory_order_relaxed) == key &&
        group.mark.load(std::memory_order_relaxed) >> 32 == generation) {
      return index;
    }
    bits = group.next.load(std::memory_order_relaxed);
  }
  return kNoGroup;
}

bool TransitWriter::is_consumed(std::uint32_t index) const noexcept {
  const std::uint64_t word = table_.groups[index].word.load();
  // A group whose serials are used up is never used again.
  return !private_[index].spare && live_of(word) == 0 && serial_of(word) != kAll;
}

// The first group of the bucket is mostly that of an earlier message with the same block, and so of
// lines that the ticket needs anyway. If it is in use, a clock hand searches for consumed groups, a
// few steps at each allocation, so that the size of the table follows the number of unread
// messages.
std::uint32_t TransitWriter::take_group(Atomic<std::uint64_t>& bucket) {
  const std::uint64_t bits = bucket.load(std::memory_order_relaxed);
  if (const std::uint32_t first = GroupLink(bits).index;
      bits != 0 && first < private_.size() && is_consumed(first)) {
    unlink(first);
    return first;
  }
  const auto count = static_cast<std::uint32_t>(private_.size());
  const std::uint32_t steps = count == TransitTable::kGroups ? count : std::min(count, 4u);
  for (std::uint32_t i = 0; i < steps && spare_.empty(); ++i) {
    hand_ = (hand_ + 1) % count;
    if (!is_consumed(hand_)) continue;
    unlink(hand_);
    spare_.push_back(hand_);  // if it throws, the group is found again
    private_[hand_].spare = true;
  }
  if (!spare_.empty()) {
    const std::uint32_t index = spare_.back();
    spare_.pop_back();
    return index;
  }
  if (count == TransitTable::kGroups) {
    throw OutOfMemory(
        "cannot send: more than a million tensors from this process are in unread messages; read "
        "or delete the queues, or call shmtensor.gc(older_than=...)");
  }
  reserve_stride(offsetof(TransitTable, groups) + std::uint64_t{count} * sizeof(TicketGroup));
  private_.emplace_back();
  table_.group_count.store(count + 1);
  return count;
}

void TransitWriter::unlink(std::uint32_t index) noexcept {
  const TicketGroup& gone = table_.groups[index];
  Atomic<std::uint64_t>* at = &table_.buckets[TransitTable::bucket_of(gone.block.load())];
  std::uint64_t bits = at->load();
  for (std::size_t steps = 0; bits != 0 && steps < private_.size(); ++steps) {
    if (GroupLink(bits).index == index) {
      SHMTENSOR_FAULT_POINT("send.unlink");
      at->store(gone.next.load());
      return;
    }
    if (GroupLink(bits).index >= private_.size()) return;
    at = &table_.groups[GroupLink(bits).index].next;
    bits = at->load();
  }
}

void TransitWriter::reserve_stride(std::uint64_t offset_in_table) {
  const std::uint64_t stride = offset_in_table / TransitTable::kStride;
  if (reserved_[stride]) return;
  if (!reserve_pages(memory_.file(),
                     SessionMemory::transit_offset(sender_) + stride * TransitTable::kStride,
                     TransitTable::kStride)) {
    throw OutOfMemory("cannot send: no memory for the table of unread messages");
  }
  reserved_[stride] = true;
}

}  // namespace shmtensor
