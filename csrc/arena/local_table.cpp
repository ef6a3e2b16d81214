#include "arena/local_table.hpp"

namespace shmtensor {

constinit std::atomic<bool> LocalTable::stopped_{false};

LocalTable::Lock::Lock(const LocalTable& table, BlockNumber block) noexcept
    : entry_(table.entry(block)) {
  Backoff backoff;
  while (true) {
    std::uint32_t count = entry_.word.load(std::memory_order_relaxed) & ~kLocked;
    if (!stopped_.load(std::memory_order_relaxed) &&
        entry_.word.compare_exchange_weak(count, count | kLocked)) {
      count_ = count;
      // Either the forking thread sees this lock and waits for it, or this load sees the stop:
      // both sides are sequentially consistent.
      if (!stopped_.load()) return;
      entry_.word.store(count);
    }
    backoff.pause();
  }
}

bool LocalTable::drop_one_of_many(BlockNumber block) const noexcept {
  std::atomic<std::uint32_t>& word = entry(block).word;
  std::uint32_t count = word.load(std::memory_order_relaxed);
  while (count > 1 && (count & kLocked) == 0) {
    if (word.compare_exchange_weak(count, count - 1, std::memory_order_release)) return true;
  }
  return false;
}

void LocalTable::wait_unlocked(BlockNumber block) const noexcept {
  Backoff backoff;
  while ((entry(block).word.load() & kLocked) != 0) backoff.pause();
}

void LocalTable::unlock_in_child(std::uint32_t blocks) const noexcept {
  for (BlockNumber block = 0; block < blocks; ++block) {
    std::atomic<std::uint32_t>& word = entry(block).word;
    const std::uint32_t value = word.load(std::memory_order_relaxed);
    if ((value & kLocked) != 0) word.store(value & ~kLocked, std::memory_order_relaxed);
  }
}

}  // namespace shmtensor
