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

/// Copies element by element where it must, in runs as long as both sides allow, and waits for it.
/// The sides do not overlap. Throws CudaError.
void copy(const Gpu& gpu, const Side& to, const Side& from, std::span<const std::int64_t> shape,
          std::int64_t item_size);

/// Sets `count` items, one behind the other, to the one at `item` in host memory, and waits.
void fill(const Gpu& gpu, DevicePtr to, const std::byte* item, std::uint64_t item_size,
          std::uint64_t count);

}  // namespace shmtensor::cuda
