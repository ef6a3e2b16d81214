// An event that processes wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "queue/wait_flag.hpp"
#include "sync/layout.hpp"
#include "sync/waiting.hpp"

namespace shmtensor::sync {

/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Event {
 public:
  static void create(std::span<std::byte> block) {
    sync::create<EventWords>(block, [](EventWords&) {});
  }
  /// Throws SessionError if the block has no event.
  explicit Event(std::span<std::byte> block) : words_(words_of<EventWords>(block)) {}

  [[nodiscard]] bool is_set() const noexcept { return is_odd(changes()); }
  void set() noexcept {
    change(false);
    WaitFlag(words_.waiters).notify_everyone();
  }
  void clear() noexcept { change(true); }

  /// A thread that waits remembers the number of changes with which it began.
  [[nodiscard]] std::uint32_t changes() const noexcept { return words_.changes.load(); }
  /// Return true if the event is set, or was since.
  [[nodiscard]] bool has_happened(std::uint32_t since) const noexcept {
    return is_odd(since) || changes() != since;
  }
  /// Waits until it may have happened.
  void wait(std::uint32_t since, std::chrono::nanoseconds time) noexcept {
    sleep_until(words_.waiters, [&] { return has_happened(since); }, time);
  }

  /// For the manager: a process may have been killed before it woke those that wait.
  void repair() noexcept { WaitFlag(words_.waiters).wake_everyone(); }

 private:
  [[nodiscard]] static bool is_odd(std::uint32_t changes) noexcept { return changes % 2 != 0; }
  void change(bool from) noexcept {
    std::uint32_t seen = changes();
    while (is_odd(seen) == from && !words_.changes.compare_exchange_weak(seen, seen + 1)) {
    }
  }

  EventWords& words_;
};

}  // namespace shmtensor::sync
