// A word of shared memory that shows whether a process waits for an event by a descriptor.
#pragma once

#include <compare>
#include <cstdint>

#include "base/atomic.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// What a descriptor of a queue waits for.
enum class QueueEvent : std::uint8_t {
  message = 0,  ///< there is a message, or the queue was shut down
  room = 1,     ///< a message can be put, or the queue was shut down
};

/// A queue, by its block, and what is waited for.
struct WatchedQueue {
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  QueueEvent event = QueueEvent::message;

  auto operator<=>(const WatchedQueue&) const = default;
};

/// 0:31 | armed:1. A process that finds that the event has not happened lowers the ready pipe of
/// the event and arms the flag; a process that makes the event happen disarms the flag before, if
/// it is armed, and raises the pipe afterwards. Both have the lock under which the event happens:
/// that of the tail for a message, of the head for room. So while no process has the lock, the pipe
/// is raised if and only if the flag is not armed.
class WatchFlag {
 public:
  explicit WatchFlag(Atomic<std::uint32_t>& word) noexcept : word_(word) {}

  [[nodiscard]] bool is_armed() const noexcept { return word_.load() != 0; }
  void arm() noexcept { word_.store(1); }
  void disarm() noexcept { word_.store(0); }

 private:
  Atomic<std::uint32_t>& word_;
};

}  // namespace shmtensor
