// Copies to, from and on a device, of arrays with strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// One side of a copy: an address on the device or of the host, and strides in bytes.
struct Side {
  std::uint64_t start = 0;
  std::span<const std::int64_t> strides;
  bool on_device = false;
};

/// Copies what both sides have as one run, or as rows at even distances, by one call of the driver
/// each, and waits for it. The sides do not overlap. Throws CudaError; nothing is under way then,
/// either.
void copy(const Gpu& gpu, const Side& to, const Side& from, std::span<const std::int64_t> shape,
          std::int64_t item_size);

/// How many calls that takes.
[[nodiscard]] std::uint64_t count_calls(const Side& to, const Side& from,
                                        std::span<const std::int64_t> shape,
                                        std::int64_t item_size);

/// Sets `count` items, one behind the other, to the one at `item` in host memory, and waits.
void fill(const Gpu& gpu, DevicePtr to, const std::byte* item, std::uint64_t item_size,
          std::uint64_t count);

}  // namespace shmtensor::cuda
