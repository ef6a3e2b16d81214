// Plans the order and the driver calls in which a strided array is copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/copy.hpp"

namespace shmtensor::cuda {

struct Dim {
  std::int64_t size = 1;
  std::int64_t to = 0;  ///< bytes from one element to the next
  std::int64_t from = 0;
};

/// The same elements in an order that takes few calls. The order does not matter, because the two
/// sides do not overlap.
struct Plan {
  std::uint64_t to = 0;  ///< offset of the first element
  std::uint64_t from = 0;
  std::int64_t width = 0;  ///< bytes that are contiguous on both sides
  Dim rows;                ///< rows of that width in one call
  std::vector<Dim> outer;  ///< one call each
};
[[nodiscard]] Plan plan_of(const CopySide& to, const CopySide& from,
                           std::span<const std::int64_t> shape, std::int64_t item_size);

}  // namespace shmtensor::cuda
