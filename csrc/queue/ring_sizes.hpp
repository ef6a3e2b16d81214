// How large the rings of a queue are. The simulation has smaller ones, which are full sooner.
#pragma once

#include <cstdint>

namespace shmtensor {

struct RingSizes {
  static constexpr std::uint32_t kRings = 16;
  static constexpr std::uint32_t kFirstRing = 32;  ///< messages
  static constexpr std::uint64_t kGrowth = 4;      ///< each is so many times larger than the last
};

}  // namespace shmtensor
