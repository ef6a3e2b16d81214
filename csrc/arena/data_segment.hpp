// The memory to which the offsets of an arena's blocks refer: pages of the arena's file, or device
// memory.
#pragma once

#include <cstdint>
#include <string>

#include "arena/range_allocator.hpp"
#include "arena/yielding_lock.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// The data segment of one arena, as mapped by this process.
/// Threads: `at` and `at_once` may be called simultaneously; the other members are for the owner
/// and protected by the arena's lock. Functions that take the lock as an argument may release it
/// temporarily.
class DataSegment {
 public:
  DataSegment() = default;
  virtual ~DataSegment() = default;
  DataSegment(const DataSegment&) = delete;
  DataSegment& operator=(const DataSegment&) = delete;

  /// Returns the address of a block's bytes in this process, and maps them if needed. Throws
  /// SessionError if the range is outside the arena, and the errors of mapping.
  [[nodiscard]] virtual std::byte* at(std::uint64_t offset, std::uint64_t size, Access access) = 0;
  /// The same if it takes no call of the system or a driver; otherwise null.
  [[nodiscard]] virtual std::byte* at_once(std::uint64_t offset, std::uint64_t size,
                                           Access access) noexcept = 0;

  /// Returns the alignment of a block of that size.
  [[nodiscard]] virtual std::uint64_t alignment(std::uint64_t size) const noexcept = 0;
  /// Returns the bytes that a block of that size occupies.
  [[nodiscard]] virtual std::uint64_t rounded(std::uint64_t size) const noexcept = 0;

  /// Return true if the range has memory.
  [[nodiscard]] virtual bool is_backed(std::uint64_t offset, std::uint64_t size) const noexcept = 0;
  /// Gives memory to an allocated range. Returns false if memory is short; then `short_of` returns
  /// the reason.
  [[nodiscard]] virtual bool back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size)
      REQUIRES(lock) = 0;
  /// Extends the space so that a block of `size` fits. Returns false if the arena is full or memory
  /// is short.
  [[nodiscard]] virtual bool grow(RangeAllocator& space, std::uint64_t size) = 0;
  /// Gives memory to the space that `grow` added, as far as available, for later allocations.
  virtual void back_ahead(YieldingLock& lock) REQUIRES(lock) { static_cast<void>(lock); }
  /// Called when the range has been allocated or freed.
  virtual void touch(std::uint64_t offset, std::uint64_t size) noexcept = 0;
  /// Releases memory that has been idle for the given time, at most `at_most` bytes of it if `trim`
  /// is called in passing. Returns true if there is more.
  virtual bool trim(YieldingLock& lock, RangeAllocator& space, std::uint64_t idle_milliseconds,
                    std::uint64_t at_most) noexcept REQUIRES(lock) = 0;
  /// Return true if any thread may call `trim` at any time. Otherwise only the session's `collect`
  /// calls it.
  [[nodiscard]] virtual bool trims_in_passing() const noexcept = 0;

  /// Returns the bytes that the owner has reserved from the system.
  [[nodiscard]] virtual std::uint64_t reserved() const noexcept = 0;
  /// Returns why the last call returned false; empty if the arena is full.
  [[nodiscard]] const std::string& short_of() const noexcept { return short_of_; }
  void clear_shortage() noexcept { short_of_.clear(); }

  /// Unmaps memory that the owner has released. This process holds no block in it.
  virtual void drop_gone() noexcept {}
  /// In a forked child: closes the descriptors that would keep the parent's memory alive.
  virtual void forget_in_child() noexcept {}
  /// Returns the number of open descriptors, for statistics.
  [[nodiscard]] virtual int descriptor_count() const noexcept { return 0; }

 protected:
  std::string short_of_;
};

}  // namespace shmtensor
