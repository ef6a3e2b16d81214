// What the driver knows of an address.
#pragma once

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// What is known of device memory.
struct PointerFacts {
  int device = -1;
  DevicePtr base = 0;
  std::uint64_t base_size = 0;
  std::uint64_t buffer_id = 0;
  bool exportable = false;  ///< by cuIpcGetMemHandle, or in pieces
  bool in_pieces = false;   ///< then `base` is of the piece that the pointer lies in
  const char* kind = "";    ///< why not, else
};
/// Of memory that an array says it has. Throws CudaError when it is no device memory, and when it
/// could be shared but reaches over the end: what lies behind it is somebody else's.
[[nodiscard]] PointerFacts facts_of(DevicePtr pointer, std::uint64_t size);

/// The number of the GPU whose memory it is. Throws CudaError when it is none's.
[[nodiscard]] int device_of(DevicePtr pointer);

}  // namespace shmtensor::cuda
