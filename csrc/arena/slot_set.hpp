// A set of slots, represented as holder bits.
#pragma once

#include <array>
#include <cstdint>

#include "arena/layout.hpp"
#include "base/ids.hpp"

namespace shmtensor {

class SlotSet {
 public:
  SlotSet() = default;
  SlotSet(SlotNumber slot) noexcept { add(slot); }  // NOLINT: one slot is a set of slots

  /// Adding kNoSlot has no effect.
  void add(SlotNumber slot) noexcept {
    if (slot < kMaxSlots) bits_[plane_of(slot)] |= bit_of(slot);
  }
  [[nodiscard]] bool has(std::uint32_t slot) const noexcept {
    const auto number = static_cast<SlotNumber>(slot);
    return slot < kMaxSlots && (bits_[plane_of(number)] & bit_of(number)) != 0;
  }
  [[nodiscard]] std::uint64_t in_plane(std::uint32_t plane) const noexcept { return bits_[plane]; }
  /// Returns a bit for each plane that has a slot of the set.
  [[nodiscard]] std::uint32_t planes() const noexcept {
    std::uint32_t planes = 0;
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      if (bits_[plane] != 0) planes |= std::uint32_t{1} << plane;
    }
    return planes;
  }

 private:
  std::array<std::uint64_t, kPlanes> bits_{};
};

}  // namespace shmtensor
