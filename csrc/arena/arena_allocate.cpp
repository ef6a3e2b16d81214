// Allocates blocks in an arena of this process, takes back what was freed, and returns idle memory.
#include <algorithm>
#include <bit>
#include <string>

#include "arena/arena.hpp"
#include "arena/shortage.hpp"
#include "base/error.hpp"
#include "os/clock.hpp"

namespace shmtensor {
namespace {

// Allocations and releases return idle memory in steps of about a millisecond, with pauses, so that
// none of them waits for the kernel to free the pages of a large tensor.
constexpr std::uint64_t kTrimStep = 4 * kMiB;
constexpr std::uint64_t kTrimPause = 16;  // milliseconds

}  // namespace

std::optional<BlockNumber> Arena::allocate_warm(std::uint64_t size) {
  member_.require_slot();
  if (!lock_.try_lock()) return std::nullopt;
  const LockGuard guard(lock_, std::adopt_lock);
  take_freed();
  const std::optional<NewBlock> made = allocator_->take_warm(size);
  if (!made) return std::nullopt;
  return activate(*made, size);
}

std::optional<BlockNumber> Arena::allocate(std::uint64_t size) {
  member_.require_slot();
  const LockGuard guard(lock_);
  take_freed();
  std::optional<NewBlock> made = allocator_->take(lock_, size);
  if (!made) {
    compare_with_table();
    made = allocator_->take(lock_, size);
  }
  if (!made) {
    allocator_->trim(lock_, 0);
    made = allocator_->take(lock_, size);
  }
  if (!made && !allocator_->short_of().empty()) {
    throw cannot_share(size, allocator_->short_of());
  }
  if (!made) return std::nullopt;
  return activate(*made, size);
}

// The entry's lock excludes a thread that receives a stale handle for the same block. That thread
// would set and then clear the bit that is set here.
BlockNumber Arena::activate(const NewBlock& made, std::uint64_t size) {
  const BlockNumber block = made.block;
  BlockRecord& record = segment_->record(block);
  LocalTable::Lock lock(local_, block);
  record.offset.store(made.offset, std::memory_order_relaxed);
  record.size.store(size, std::memory_order_relaxed);
  record.contents.store(0, std::memory_order_relaxed);
  // Processes can send this generation only after they hold it, so none of them has set a bit yet.
  // Their stores come after the store that makes the word live. A process that checks an older
  // generation and sees an old bit searches for a ticket and finds none.
  for (std::uint32_t planes = segment_->planes(); planes != 0; planes &= planes - 1) {
    segment_->senders(static_cast<std::uint32_t>(std::countr_zero(planes)), block)
        .store(0, std::memory_order_relaxed);
  }
  segment_->holders(plane_of(member_.slot()), block).fetch_or(bit_of(member_.slot()));
  record.word.store(BlockWord::live_at(BlockWord(record.word.load()).generation()).bits(),
                    std::memory_order_release);  // after the bit
  lock.set_count(1);
  pin();
  return block;
}

void Arena::collect(std::uint64_t idle_milliseconds) {
  member_.require_slot();
  const LockGuard guard(lock_);
  take_freed();
  compare_with_table();
  allocator_->trim(lock_, idle_milliseconds);
}

std::uint64_t Arena::reserved() const noexcept { return owned() ? data_->reserved() : 0; }

bool Arena::is_empty() noexcept {
  if (!lock_.try_lock()) return false;
  const LockGuard guard(lock_, std::adopt_lock);
  return allocator_->empty() && data_->reserved() == 0;
}

void Arena::take_freed() {
  const FreedMap freed = segment_->freed();
  if (freed.any()) {
    freed.take([&owner = *allocator_](BlockNumber block) { owner.reclaim(block); });
  }
  if (member_.memory().header().deaths.load(std::memory_order_relaxed) != deaths_seen_) {
    compare_with_table();
  }
  note_operation();
}

// A process may be killed after it freed a block and before it marked the block in the freed map.
void Arena::compare_with_table() {
  deaths_seen_ = member_.memory().header().deaths.load();
  allocator_->for_each_allocated(
      [&owner = *allocator_](BlockNumber block) { owner.reclaim(block); });
}

// Reading the clock costs a few nanoseconds, and scanning the free ranges takes time proportional
// to their number. So both are done rarely.
void Arena::note_operation() noexcept {
  if (!data_->trims_in_passing() || (!trimming_ && ++operations_ % 64 != 0)) return;
  if (coarse_milliseconds() >= trim_at_) trim_is_due_.store(true, std::memory_order_relaxed);
}

void Arena::trim_in_passing(std::uint64_t idle_milliseconds) noexcept {
  if (!member_.has_slot()) return;
  const LockGuard guard(lock_);
  if (!trim_is_due_.exchange(false)) return;  // another thread was faster
  const std::uint64_t begin = coarse_milliseconds();
  trimming_ = allocator_->trim(lock_, idle_milliseconds, kTrimStep);
  const std::uint64_t end = coarse_milliseconds();
  trim_at_ = end + (trimming_ ? std::max(kTrimPause, 8 * (end - begin)) : idle_milliseconds / 4);
}

}  // namespace shmtensor
