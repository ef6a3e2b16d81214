// What lies behind the offsets of an arena's blocks: pages of the arena's file, or device memory.
#pragma once

#include <cstdint>
#include <string>

#include "arena/space.hpp"
#include "arena/yielding_lock.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// The data segment of one arena, as this process reaches it.
/// Threads: `at` and `at_once` may be called at the same time; the rest is the owner's, behind the
/// arena's lock. What takes that lock as an argument may give it away for a while.
class Data {
 public:
  Data() = default;
  virtual ~Data() = default;
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  /// Where a block's bytes lie in this process; makes them reachable if need be. Throws
  /// SessionError when the place is outside of what the arena has, and what mapping throws.
  [[nodiscard]] virtual std::byte* at(std::uint64_t offset, std::uint64_t size, Access access) = 0;
  /// The same if it takes no call of the system or a driver, else null.
  [[nodiscard]] virtual std::byte* at_once(std::uint64_t offset, std::uint64_t size,
                                           Access access) noexcept = 0;

  /// At what multiple of bytes a block of that size begins.
  [[nodiscard]] virtual std::uint64_t alignment(std::uint64_t size) const noexcept = 0;
  /// What a block of that size takes.
  [[nodiscard]] virtual std::uint64_t rounded(std::uint64_t size) const noexcept = 0;

  /// Has the range memory behind it?
  [[nodiscard]] virtual bool is_backed(std::uint64_t offset, std::uint64_t size) const noexcept = 0;
  /// Gives a range that is taken memory. False when that is short: then `short_of` says of what.
  [[nodiscard]] virtual bool back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size) = 0;
  /// Extends the space so that a block of `size` fits. False when the arena is full, or memory is
  /// short.
  [[nodiscard]] virtual bool grow(Space& space, std::uint64_t size) = 0;
  /// Gives memory to what `grow` has added, as far as there is some, for the allocations to come.
  virtual void back_ahead(YieldingLock& /*lock*/) {}
  /// The range was given out or taken back just now.
  virtual void touch(std::uint64_t offset, std::uint64_t size) noexcept = 0;
  /// Gives memory back that was not used for so long, at most `at_most` bytes of it where `trim` is
  /// called in passing. Returns true if there is more.
  virtual bool trim(YieldingLock& lock, Space& space, std::uint64_t idle_milliseconds,
                    std::uint64_t at_most) noexcept = 0;
  /// May `trim` be called by any thread at any time? Else only when the session collects.
  [[nodiscard]] virtual bool trims_in_passing() const noexcept = 0;

  /// Bytes that the owner has from the system.
  [[nodiscard]] virtual std::uint64_t reserved() const noexcept = 0;
  /// Why the call failed that has just returned false; empty when the arena is full.
  [[nodiscard]] const std::string& short_of() const noexcept { return short_of_; }
  void clear_shortage() noexcept { short_of_.clear(); }

  /// Unmaps what the owner has given back since. Nothing of it is held here.
  virtual void drop_gone() noexcept {}
  /// In a forked child: closes what would keep the parent's memory alive.
  virtual void forget_in_child() noexcept {}
  /// For statistics.
  [[nodiscard]] virtual int descriptor_count() const noexcept { return 0; }

 protected:
  std::string short_of_;
};

}  // namespace shmtensor
