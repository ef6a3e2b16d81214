#include "arena/local_table.hpp"

#include "os/backoff.hpp"

namespace shmtensor {

constinit std::atomic<bool> LocalTable::stopped_{false};

void LocalTable::Lock::wait() noexcept {
  Backoff backoff;
  do {
    backoff.pause();
    count_ = entry_.word.load(std::memory_order_relaxed);
  } while (!try_take());
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
