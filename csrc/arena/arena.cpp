#include "arena/arena.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "arena/address_map.hpp"
#include "arena/host_data_segment.hpp"
#include "arena/reclaim.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "os/prefetch.hpp"

namespace shmtensor {

Arena::Arena(std::unique_ptr<Segment> segment, const Member& member, Budget* budget,
             std::unique_ptr<DataSegment> data)
    : segment_(std::move(segment)),
      data_(std::move(data)),
      member_(member),
      local_(segment_->layout().max_blocks) {
  if (data_ == nullptr) data_ = std::make_unique<HostDataSegment>(*segment_, budget);
  segment_->used_by(*this);
  if (budget != nullptr) {
    allocator_ = std::make_unique<Allocator>(*segment_, *data_);
    deaths_seen_ = member_.memory().header().deaths.load();
  }
}

Arena::~Arena() { AddressMap::get().remove(*this); }

// Four cases. (1) The process holds the block already: a handle of the same generation is valid,
// and its ticket is claimed if it is live. (2) The ticket is live: the block cannot have been freed
// before the claim, and a process that checks tickets after the claim checks holder bits later
// still, and finds this one. (3) The ticket is consumed, because the message was loaded before: a
// process that is freeing the block may have read the holder bits too early to see this one, so the
// epoch must change while the block is live. Likewise if the ticket is left to others, which may
// consume it at any time. (4) Otherwise the handle is stale.
bool Arena::hold_first(LocalTable::Lock& lock, const NamedTicket& named,
                       TransitTable* transit) noexcept {
  if (lock.count() > 0 ||
      !member_.has_slot()) {  // of another generation, or this process lacks a slot
    pin();
    return false;
  }
  Atomic<std::uint64_t>& state = segment_->record(named.block).word;
  Atomic<std::uint64_t>& holders = segment_->holders(plane_of(member_.slot()), named.block);
  holders.fetch_or(bit_of(member_.slot()));
  bool held = transit != nullptr && transit->claim(named);
  if (!held) {
    std::uint64_t word = state.load();
    while (!held && BlockWord(word).live_at_generation(named.generation)) {
      held = state.compare_exchange_weak(word, BlockWord(word).next_epoch().bits());
    }
  }
  if (held) {
    lock.set_count(1);
  } else {
    holders.fetch_and(~bit_of(member_.slot()));
  }
  pin();
  return held;
}

// A live ticket keeps its generation from being freed, so a claim that succeeds is for the present
// one. The bit comes before the claim, as in `hold_first`.
bool Arena::take(LocalTable::Lock& lock, const NamedTicket& named, TransitTable& transit) noexcept {
  const bool first = lock.count() == 0;
  Atomic<std::uint64_t>& holders = segment_->holders(plane_of(member_.slot()), named.block);
  if (first) {
    holders.fetch_or(bit_of(member_.slot()));
    pin();
  }
  const bool claimed = transit.claim(named);
  if (claimed) {
    lock.set_count(lock.count() + 1);
  } else if (first) {
    holders.fetch_and(~bit_of(member_.slot()));
  } else {
    pin();
  }
  return claimed;
}

void Arena::prefetch_hold(const NamedTicket& named) const noexcept {
  if (named.block >= segment_->capacity()) return;
  prefetch_to_read(&segment_->record(named.block));
  prefetch_to_write(&segment_->holders(plane_of(member_.slot()), named.block));
  if (const TransitTable* transit = member_.memory().transit_if_mapped(named.ticket.sender)) {
    transit->prefetch(named.ticket);
  }
}

void Arena::unpin_and_try_free(BlockNumber block) noexcept {
  try_free_block(block);
  unpin();
}

void Arena::release_last(BlockNumber block) noexcept {
  if (!member_.has_slot()) return;
  bool last = false;
  {
    LocalTable::Lock lock(local_, block);
    last = release(lock, block);
  }
  if (last) unpin_and_try_free(block);
}

bool Arena::release(LocalTable::Lock& lock, BlockNumber block) noexcept {
  if (lock.count() > 1) {
    lock.set_count(lock.count() - 1);
    return false;
  }
  if (!member_.has_slot()) return false;
  segment_->holders(plane_of(member_.slot()), block).fetch_and(~bit_of(member_.slot()));
  lock.set_count(0);
  return true;
}

void Arena::try_free_block(BlockNumber block) noexcept {
  if (!member_.has_slot()) return;
  const FreeResult result = try_free(*segment_, block, member_.memory());
  if (result == FreeResult::draining) member_.request_drain(segment_->number(), block);
  if (result != FreeResult::freed) return;
  // A release may run with the GIL held and does not wait for the lock. As with a block that a peer
  // freed, the owner finds the block at its next allocation.
  if (owned() && lock_.try_lock()) {
    const LockGuard guard(lock_, std::adopt_lock);
    allocator_->reclaim(block);
    note_operation();
  } else {
    segment_->freed().mark(block);
  }
  segment_->notify_owner();
}

// The ticket is published before the epoch changes, and the epoch changes before the message can be
// read. So a process that checked the tickets too early fails to free the block.
Ticket Arena::send(BlockNumber block, TicketOf of) {
  announce_sender(block);
  const Ticket ticket = member_.writer().issue(segment_->number(), block, generation(block), of);
  change_epoch(block);
  return ticket;
}

Ticket Arena::send(BlockNumber block, TicketRecord& record) {
  announce_sender(block);
  const Ticket ticket =
      member_.writer().issue(segment_->number(), block, generation(block), record);
  change_epoch(block);
  return ticket;
}

void Arena::announce_sender(BlockNumber block) {
  member_.require_slot();
  Atomic<std::uint64_t>& senders = segment_->senders(plane_of(member_.slot()), block);
  if ((senders.load() & bit_of(member_.slot())) == 0) {
    // A process that sees the bit searches for a ticket, so the page of the ticket must exist by
    // then.
    member_.writer().reserve(segment_->number(), block);
    senders.fetch_or(bit_of(member_.slot()));
  }
}

void Arena::prefetch_send(BlockNumber block) {
  announce_sender(block);
  member_.writer().prefetch_bucket(segment_->number(), block);
}

void Arena::prefetch_ticket(BlockNumber block) const {
  member_.writer().prefetch_group(segment_->number(), block);
}

void Arena::change_epoch(BlockNumber block) noexcept {
  Atomic<std::uint64_t>& state = segment_->record(block).word;
  std::uint64_t word = state.load();
  while (!state.compare_exchange_weak(word, BlockWord(word).next_epoch().bits())) {
  }
}

void Arena::cancel_send(BlockNumber block, Generation generation, const Ticket& ticket) {
  if (!member_.has_slot()) return;
  member_.memory().transit(ticket.sender).claim(ticket, segment_->number(), block, generation);
  try_free_block(block);
}

Generation Arena::generation(BlockNumber block) const noexcept {
  return BlockWord(segment_->record(block).word.load(std::memory_order_acquire)).generation();
}

std::span<std::byte> Arena::bytes(BlockNumber block, Access access) const {
  const std::uint64_t offset = segment_->record(block).offset.load(std::memory_order_relaxed);
  const std::uint64_t size = this->size(block);
  return {data_->at(offset, size, access), size};
}

std::span<std::byte> Arena::bytes_at_once(BlockNumber block, Access access) const noexcept {
  const std::uint64_t offset = segment_->record(block).offset.load(std::memory_order_relaxed);
  const std::uint64_t size = this->size(block);
  return {data_->at_once(offset, size, access), size};
}

bool Arena::holds_any() const noexcept {
  const std::uint32_t capacity = segment_->capacity();
  for (BlockNumber block = 0; block < capacity; ++block) {
    if (local_.holds(block)) return true;
  }
  return false;
}

void Arena::order_changed() {
  while (const std::optional<BlockNumber> block = local_.take_changed()) {
    // A block that is not held may have lost its offset to a block that is in the order already.
    if (!local_.holds(*block)) continue;
    try {
      order_.put({segment_->record(*block).offset.load(std::memory_order_relaxed), *block});
    } catch (...) {
      local_.put_back(*block);
      throw;
    }
  }
  if (order_.size() <= sweep_at_) return;
  order_.erase_if([this](const BlockOrder::Place& place) { return is_outdated(place); });
  sweep_at_ = 2 * order_.size() + kFewPlaces;
}

bool Arena::is_outdated(const BlockOrder::Place& place) const noexcept {
  return !local_.holds(place.block) ||
         segment_->record(place.block).offset.load(std::memory_order_relaxed) != place.offset;
}

void Arena::wait_for_fork() const noexcept {
  const std::uint32_t capacity = segment_->capacity();
  for (BlockNumber block = 0; block < capacity; ++block) local_.wait_unlocked(block);
}

// The plane is created even if nothing is held. The child has the arena mapped and may later hold
// blocks that it receives; peers read its bits only in planes that were announced.
void Arena::hold_for_child(SlotNumber child) {
  if (!survives_fork()) return;
  segment_->ensure_plane(child);
  const std::uint32_t capacity = segment_->capacity();
  for (BlockNumber block = 0; block < capacity; ++block) {
    if (!local_.holds(block)) continue;
    segment_->holders(plane_of(child), block).fetch_or(bit_of(child));
    change_epoch(block);
  }
}

void Arena::disown() noexcept {
  local_.unlock_in_child(segment_->capacity());
  allocator_.reset();
  data_->forget_in_child();
}

}  // namespace shmtensor
