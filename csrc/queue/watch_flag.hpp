// A word of shared memory that shows whether a process waits for an event by a descriptor.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>

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

/// changes:31 | armed:1. A process that found that the event has not happened arms the flag; the
/// one that makes it happen tells the manager first, if the flag is armed, and disarms it. Both
/// have the lock under which the event happens: that of the tail for a message, of the head for
/// room. So each time the flag is disarmed, every descriptor is made readable once.
class WatchFlag {
 public:
  explicit WatchFlag(std::atomic<std::uint32_t>& word) noexcept : word_(word) {}

  [[nodiscard]] bool is_armed() const noexcept { return (word_.load() & 1) != 0; }
  /// Return true if a process has ever armed the flag.
  [[nodiscard]] bool is_used() const noexcept { return word_.load() != 0; }
  /// How often the flag was disarmed.
  [[nodiscard]] std::uint32_t changes() const noexcept { return word_.load() >> 1; }
  void arm() noexcept { word_.store(word_.load() | 1); }
  void disarm() noexcept { word_.store((word_.load() | 1) + 1); }

 private:
  std::atomic<std::uint32_t>& word_;
};

}  // namespace shmtensor
