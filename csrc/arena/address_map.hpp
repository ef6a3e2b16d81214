// From an address in this process to the object over the memory there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arena/address_range.hpp"
#include "arena/arena.hpp"
#include "os/spin_lock.hpp"

namespace shmtensor {

/// Lists the address ranges of arenas' data, and of other memory that has one object. The only
/// instance is created at first use and never destroyed.
///
/// An object leaves the entry of its block, or its range the list, before it is freed, so none that
/// is found is dead. The offset in a block's record is shared memory, so a forged one hides the
/// block; the caller compares what is found with the address and size in private memory.
/// Threads: all members may be called simultaneously, except those for forks.
class AddressMap {
 public:
  static AddressMap& get();

  /// Offers the objects over the memory at that address to `accept(object)`, and returns the first
  /// one that is accepted, or null. During the call no object is replaced and no range removed; it
  /// must not block or run Python. Throws std::bad_alloc.
  template <typename Accept>
  [[nodiscard]] void* find(const std::byte* address, Accept&& accept) {
    const LockGuard guard(lock_);
    const Range* const range = range_of(address);
    if (range == nullptr) return nullptr;
    if (range->arena == nullptr) return accept(range->object) ? range->object : nullptr;
    const auto distance = static_cast<std::uint64_t>(address - range->begin);
    return range->arena->find_object(range->offset + distance, accept);
  }

  /// Removes the ranges of an arena that is about to be destroyed.
  void remove(const Arena& arena) noexcept {
    const LockGuard guard(lock_);
    forget(arena);
  }

  // --- fork: locked before LocalTable::stop_locking, which the analysis cannot follow ---
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  void unlock_after_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }
  /// In the child, before the unlock: removes the ranges of an arena that the child does not use.
  void forget_in_child(const Arena& arena) noexcept NO_THREAD_SAFETY_ANALYSIS { forget(arena); }

 private:
  friend class AddressRange;

  struct Range {
    const std::byte* begin;
    std::uint64_t size;
    Arena* arena;          ///< null for memory that has one object
    std::uint64_t offset;  ///< of `begin` in the arena's data
    void* object;
  };

  void add(const Range& range);
  void remove(const std::byte* begin) noexcept;
  void forget(const Arena& arena) noexcept REQUIRES(lock_);
  [[nodiscard]] const Range* range_of(const std::byte* address) const noexcept REQUIRES(lock_);

  SpinLock lock_;
  std::vector<Range> ranges_ GUARDED_BY(lock_);  // in order; they do not overlap
};

}  // namespace shmtensor
