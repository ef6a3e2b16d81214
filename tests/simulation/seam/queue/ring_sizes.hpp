// As csrc/queue/ring_sizes.hpp, so that a run of few steps begins a ring.
#pragma once

#include <cstdint>

namespace shmtensor {

struct RingSizes {
  static constexpr std::uint32_t kRings = 4;
  static constexpr std::uint32_t kFirstRing = 4;
  static constexpr std::uint64_t kGrowth = 1;
};

}  // namespace shmtensor
