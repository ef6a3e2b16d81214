// A semaphore whose units have owners.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "arena/slot_set.hpp"
#include "sync/layout.hpp"

namespace shmtensor::sync {

enum class Taken : std::uint8_t {
  done,
  none,    ///< there is no unit, or no room for one
  locked,  ///< another process had the lock for all of the time
};

/// A process that acquires a unit owns it until it releases one, or until a process that owns none
/// does. Units above the initial value have no owner: a program that begins with none uses them as
/// signals. `slot` is that of the calling process; `time` limits the wait for the lock.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Semaphore {
 public:
  static constexpr std::uint32_t kMost = 0x7fff'ffff;

  [[nodiscard]] static std::size_t bytes(std::uint32_t initial) noexcept {
    return bytes_for<Word>(initial);
  }
  static void create(std::span<std::byte> block, std::uint32_t initial, bool bounded);
  /// Throws SessionError if the block has no semaphore.
  explicit Semaphore(std::span<std::byte> block)
      : words_(words_of<SemaphoreWords>(block)), shares_(processes_in<Word>(block)) {}

  [[nodiscard]] Taken acquire(SlotNumber slot, std::chrono::nanoseconds time) noexcept;
  /// Waits until there may be a unit.
  void wait(std::chrono::nanoseconds time) noexcept;
  /// `none`: the value would be too large; it is unchanged.
  [[nodiscard]] Taken release(SlotNumber slot, std::uint32_t units,
                              std::chrono::nanoseconds time) noexcept;
  /// This process ends as it should: another one may release what it has acquired.
  [[nodiscard]] Taken disown(SlotNumber slot, std::chrono::nanoseconds time) noexcept;
  /// A thread that was woken goes on without a unit.
  void pass_wakeup_on() noexcept;
  [[nodiscard]] std::uint32_t value() const noexcept;
  /// Return true if the process owns a unit.
  [[nodiscard]] bool owns_any(SlotNumber slot) const noexcept;

  /// For the manager: returns the units of dead processes.
  void repair(const SlotSet& dead) noexcept;

 private:
  using Word = Atomic<std::uint64_t>;  // Share

  template <typename Change>
  [[nodiscard]] Taken with_lock(SlotNumber slot, std::chrono::nanoseconds time, Change&& change);
  [[nodiscard]] bool own_one(SlotNumber slot) noexcept;
  /// Takes as many units from shares, the own one first. Returns how many had an owner.
  [[nodiscard]] std::uint32_t return_owned(SlotNumber slot, std::uint32_t most) noexcept;
  [[nodiscard]] std::span<Word> used() const noexcept {
    return shares_.first(std::min<std::size_t>(words_.used.load(), shares_.size()));
  }
  [[nodiscard]] std::uint32_t owned() const noexcept;

  SemaphoreWords& words_;
  std::span<Word> shares_;
};

}  // namespace shmtensor::sync
