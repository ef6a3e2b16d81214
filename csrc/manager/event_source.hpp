// What the descriptors are for which the manager's loop waits.
#pragma once

#include <cstdint>

namespace shmtensor {

enum class EventSource : std::uint8_t { listener, client, process, queue };

/// A tag of the poller: the kind of a descriptor in the upper half, and its number or slot in the
/// lower.
constexpr std::uint64_t tag(EventSource source, std::uint32_t value) noexcept {
  return static_cast<std::uint64_t>(source) << 32 | value;
}
constexpr EventSource source_of(std::uint64_t ready) noexcept {
  return static_cast<EventSource>(ready >> 32);
}
constexpr std::uint32_t value_of(std::uint64_t ready) noexcept {
  return static_cast<std::uint32_t>(ready);
}

}  // namespace shmtensor
