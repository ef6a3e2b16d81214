// Counts the open descriptors of this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>

namespace shmtensor::testing {

/// With that of the folder, which is open meanwhile: for comparisons.
[[nodiscard]] inline std::uint64_t open_descriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<std::uint64_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace shmtensor::testing
