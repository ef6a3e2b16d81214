// How large the tables of a cache are. The simulation has smaller ones, which are full sooner.
#pragma once

#include <cstdint>

namespace shmtensor {

struct CacheSizes {
  static constexpr std::uint32_t kTables = 24;  ///< each has twice the places of the one before
  static constexpr std::uint32_t kFirstPlaces = 64;
  static constexpr std::uint32_t kBuilds = 256;     ///< at the same time
  static constexpr std::uint32_t kSample = 32;      ///< of which the least recently used item goes
  static constexpr std::uint32_t kMostTries = 256;  ///< to find an item that no process holds
};

}  // namespace shmtensor
