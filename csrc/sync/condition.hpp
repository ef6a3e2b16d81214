// The threads that wait for a condition.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "arena/slot_set.hpp"
#include "sync/layout.hpp"

namespace shmtensor::sync {

/// `enter`, `notify` and `leave` are called with the lock of the condition. Only the manager
/// changes a word at the same time: it gives a notification of a dead process to another one.
/// Threads, processes: so one at a time; `sleep` at any time. A thread may be killed at any
/// instruction.
class Condition {
 public:
  [[nodiscard]] static std::size_t bytes() noexcept {
    return kProcesses + std::size_t{2} * kMaxSlots * sizeof(WaitingProcess);
  }
  static void create(std::span<std::byte> block) {
    sync::create<ConditionWords>(block, [](ConditionWords&) {});
  }
  /// Throws SessionError if the block has no condition.
  explicit Condition(std::span<std::byte> block)
      : words_(words_of<ConditionWords>(block)), processes_(processes_in<WaitingProcess>(block)) {}

  /// Adds a thread of the process. Returns its place for the calls below. Throws SessionError if
  /// the memory is damaged.
  [[nodiscard]] std::size_t enter(SlotNumber slot);
  /// Without the lock: waits until a thread of the process may be notified.
  void sleep(std::size_t place, std::chrono::nanoseconds time) noexcept;
  [[nodiscard]] bool is_notified(std::size_t place) const noexcept;
  /// Removes the thread. Returns true if it was notified.
  [[nodiscard]] bool leave(std::size_t place) noexcept;
  /// Notifies as many threads, one after the other in the order of their processes. Returns how
  /// many.
  std::uint32_t notify(std::uint32_t threads) noexcept;

  /// For the manager: notifications of dead processes are given to others.
  void repair(const SlotSet& dead) noexcept;

 private:
  struct Threads;

  [[nodiscard]] std::span<WaitingProcess> used() const noexcept {
    return processes_.first(std::min<std::size_t>(words_.used.load(), processes_.size()));
  }
  [[nodiscard]] static bool notify_one(WaitingProcess& process, const SlotSet& dead) noexcept;
  void give_away(WaitingProcess& process, const SlotSet& dead) noexcept;
  static void wake_threads(WaitingProcess& process, std::uint32_t threads) noexcept;

  ConditionWords& words_;
  std::span<WaitingProcess> processes_;
};

}  // namespace shmtensor::sync
