// The blocks of an arena that this process holds: private memory, one entry per block.
#pragma once

#include <cstdint>
#include <optional>

#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// A holder bit indicates that a process holds a block, with any number of references; the number
/// of references is stored here. The bit and the number change together, under the entry's lock.
///
/// Threads: access goes through Lock. A fork waits until no entry is locked, and prevents new locks
/// until it is done.
class LocalTable {
  struct Entry {
    Atomic<std::uint32_t> word;  ///< locked:1 | count:31
    std::uint32_t
        next;  ///< in the list of `take_changed`: kNotListed, kEnd, or a block's number + 1
    void* objects[2];
  };

 public:
  explicit LocalTable(std::uint32_t max_blocks)
      : memory_(Mapping::anonymous(std::uint64_t{max_blocks} * sizeof(Entry))) {}

  /// Exclusive access to one entry. While it is held, the thread must not block or run Python.
  class Lock {
   public:
    Lock(const LocalTable& table, BlockNumber block) noexcept
        : entry_(table.entry(block)), count_(entry_.word.load(std::memory_order_relaxed)) {
      if (!try_take()) wait();
    }
    ~Lock() { entry_.word.store(count_, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
    void set_count(std::uint32_t count) noexcept { count_ = count; }

    /// A pointer for the layer above, per access mode; null while the count is zero.
    [[nodiscard]] void* object(Access access) const noexcept {
      return entry_.objects[static_cast<std::size_t>(access)];
    }

   private:
    friend LocalTable;

    [[nodiscard]] bool try_take() noexcept {
      if (stopped_.load(std::memory_order_relaxed) || (count_ & kLocked) != 0 ||
          !entry_.word.compare_exchange_strong(count_, count_ | kLocked)) {
        return false;
      }
      // Either the forking thread sees this lock and waits for it, or this load sees the stop: both
      // sides are sequentially consistent.
      if (!stopped_.load()) return true;
      entry_.word.store(count_);
      return false;
    }
    void wait() noexcept;

    Entry& entry_;
    std::uint32_t count_;
  };

  void set_object(const Lock& lock, Access access, void* object) const noexcept {
    lock.entry_.objects[static_cast<std::size_t>(access)] = object;
    if (object != nullptr && lock.entry_.next == kNotListed) list_changed(lock.entry_);
  }

  /// Releases one reference if at least one remains, without a lock and without shared memory.
  /// Otherwise returns false.
  bool drop_one_of_many(BlockNumber block) const noexcept {
    Atomic<std::uint32_t>& word = entry(block).word;
    std::uint32_t count = word.load(std::memory_order_relaxed);
    while (count > 1 && (count & kLocked) == 0) {
      if (word.compare_exchange_weak(count, count - 1, std::memory_order_release)) return true;
    }
    return false;
  }

  [[nodiscard]] bool holds(BlockNumber block) const noexcept {
    return (entry(block).word.load() & ~kLocked) != 0;
  }

  /// Removes a block from the list of those that have got an object since they were last removed.
  /// Threads: one at a time.
  [[nodiscard]] std::optional<BlockNumber> take_changed() const noexcept;
  /// Lists a block that was taken.
  void put_back(BlockNumber block) const noexcept;

  /// Waits until the entry is unlocked. Called only between the two calls below.
  void wait_unlocked(BlockNumber block) const noexcept;
  static void stop_locking() noexcept { stopped_.store(true); }
  /// In the forked child: a thread of the parent may have locked an entry for the moment in which
  /// it saw the stop. That thread does not exist in the child.
  void unlock_in_child(std::uint32_t blocks) const noexcept;
  static void resume_locking() noexcept { stopped_.store(false); }

 private:
  static constexpr std::uint32_t kLocked = 1u << 31;
  static constexpr std::uint32_t kNotListed = 0;
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  static Atomic<bool> stopped_;

  [[nodiscard]] Entry& entry(BlockNumber block) const noexcept {
    return reinterpret_cast<Entry*>(memory_.data())[block];
  }

  /// The entry is locked, and not listed.
  void list_changed(Entry& entry) const noexcept;

  Mapping memory_;
  mutable Atomic<std::uint32_t> changed_{kEnd};  ///< the first in the list, as in Entry::next
};

}  // namespace shmtensor
