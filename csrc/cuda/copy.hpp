// Copies strided arrays to, from and on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// One side of a copy: an address on the device or host, and strides in bytes.
struct CopySide {
  std::uint64_t start = 0;
  std::span<const std::int64_t> strides;
  bool on_device = false;
};

/// Copies the elements and waits. One call of the driver copies a contiguous run, or rows at
/// constant distances. The two sides must not overlap. Throws CudaError; no copy is in progress in
/// that case, either.
void copy(const Gpu& gpu, const CopySide& to, const CopySide& from,
          std::span<const std::int64_t> shape, std::int64_t item_size);

/// Returns the number of driver calls that the copy takes.
[[nodiscard]] std::uint64_t count_calls(const CopySide& to, const CopySide& from,
                                        std::span<const std::int64_t> shape,
                                        std::int64_t item_size);

/// Sets `count` consecutive items to the one at `item` in host memory, and waits.
void fill(const Gpu& gpu, DevicePtr to, const std::byte* item, std::uint64_t item_size,
          std::uint64_t count);

}  // namespace shmtensor::cuda
