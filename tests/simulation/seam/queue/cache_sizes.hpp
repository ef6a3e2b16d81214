// As csrc/queue/cache_sizes.hpp, so that a run of few steps fills a table.
#pragma once

#include <cstdint>

namespace shmtensor {

struct CacheSizes {
  static constexpr std::uint32_t kTables = 3;
  static constexpr std::uint32_t kFirstPlaces = 8;
  static constexpr std::uint32_t kBuilds = 2;
  static constexpr std::uint32_t kSample = 4;
  static constexpr std::uint32_t kMostTries = 4;
};

}  // namespace shmtensor
