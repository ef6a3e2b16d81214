// Queries the driver for the attributes of an address.
#pragma once

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// The attributes of device memory.
struct PointerAttributes {
  int device = -1;
  ContextHandle context = nullptr;  ///< of its device, in which the memory has the address
  DevicePtr base = 0;
  std::uint64_t base_size = 0;
  std::uint64_t buffer_id = 0;
  bool exportable = false;  ///< by cuIpcGetMemHandle, or in chunks
  bool in_chunks = false;   ///< if true, `base` is the chunk that contains the pointer
  const char* kind = "";    ///< why it is not exportable
};
/// Returns the attributes of the memory of an array. Throws CudaError if it is not device memory,
/// or if it could be exported but extends past the end of its allocation, where other memory
/// begins.
[[nodiscard]] PointerAttributes query_pointer(DevicePtr pointer, std::uint64_t size);

/// Returns the number of the GPU that has the memory. Throws CudaError if it is not GPU memory.
[[nodiscard]] int device_of(DevicePtr pointer);

}  // namespace shmtensor::cuda
