// In which order and in how many calls an array with strides is copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/copy.hpp"

namespace shmtensor::cuda {

struct Dim {
  std::int64_t size = 1;
  std::int64_t to = 0;  ///< bytes from one to the next
  std::int64_t from = 0;
};

/// The same elements in an order that takes few calls: which comes first is no matter, because the
/// sides do not overlap.
struct Plan {
  std::uint64_t to = 0;  ///< where it begins
  std::uint64_t from = 0;
  std::int64_t width = 0;  ///< bytes that both sides have as one run
  Dim rows;                ///< so many of those in one call
  std::vector<Dim> outer;  ///< a call each
};
[[nodiscard]] Plan plan_of(const Side& to, const Side& from, std::span<const std::int64_t> shape,
                           std::int64_t item_size);

}  // namespace shmtensor::cuda
