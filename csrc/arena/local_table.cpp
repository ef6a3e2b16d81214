#include "arena/local_table.hpp"

#include "os/backoff.hpp"

namespace shmtensor {

constinit Atomic<bool> LocalTable::stopped_{false};

void LocalTable::Lock::wait() noexcept {
  Backoff backoff;
  do {
    backoff.pause();
    count_ = entry_.word.load(std::memory_order_relaxed);
  } while (!try_take());
}

void LocalTable::list_changed(Entry& entry) const noexcept {
  const Entry* const first = reinterpret_cast<const Entry*>(memory_.data());
  const auto self = static_cast<std::uint32_t>(&entry - first) + 1;
  entry.next = changed_.load(std::memory_order_relaxed);
  while (!changed_.compare_exchange_weak(entry.next, self, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

// Only this function removes, in one thread at a time, so a first entry that is still the first has
// the same successor. It leaves the list before it is marked: what changes in between does not list
// it again, but is visible to the caller, because the mark is made under the entry's lock.
std::optional<BlockNumber> LocalTable::take_changed() const noexcept {
  std::uint32_t first = changed_.load(std::memory_order_acquire);
  do {
    if (first == kEnd) return std::nullopt;
  } while (
      !changed_.compare_exchange_weak(first, entry(first - 1).next, std::memory_order_acquire));
  const BlockNumber block = first - 1;
  const Lock lock(*this, block);
  lock.entry_.next = kNotListed;
  return block;
}

void LocalTable::put_back(BlockNumber block) const noexcept {
  const Lock lock(*this, block);
  if (lock.entry_.next == kNotListed) list_changed(lock.entry_);
}

void LocalTable::wait_unlocked(BlockNumber block) const noexcept {
  Backoff backoff;
  while ((entry(block).word.load() & kLocked) != 0) backoff.pause();
}

void LocalTable::unlock_in_child(std::uint32_t blocks) const noexcept {
  for (BlockNumber block = 0; block < blocks; ++block) {
    Atomic<std::uint32_t>& word = entry(block).word;
    const std::uint32_t value = word.load(std::memory_order_relaxed);
    if ((value & kLocked) != 0) word.store(value & ~kLocked, std::memory_order_relaxed);
  }
}

}  // namespace shmtensor
