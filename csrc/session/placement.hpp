// Blocks, and where new ones are allocated.
#pragma once

#include "arena/arena.hpp"

namespace shmtensor {

/// A block of an arena: the unit of memory for the layers above.
struct Block {
  Arena* arena = nullptr;
  BlockNumber number = 0;
};

/// Where a new block is allocated.
struct Placement {
  // NOLINTNEXTLINE(google-explicit-constructor): a strategy is a placement on the host
  Placement(Strategy how) noexcept : strategy(how) {}
  static Placement on_device(int number) noexcept {
    Placement placement(Strategy::device);
    placement.device = number;
    return placement;
  }

  Strategy strategy;
  int device = 0;  ///< for Strategy::device: its number in this process
};

}  // namespace shmtensor
