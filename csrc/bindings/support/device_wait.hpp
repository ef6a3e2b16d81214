// Waiting for a GPU with the GIL released, unless a CUDA graph is being captured.
#pragma once

#include "cuda/types.hpp"

namespace shmtensor::python {

/// Return true if the stream that torch or CuPy uses in this thread is being captured into a graph.
/// To wait for the device would then invalidate the capture. Called with the GIL.
[[nodiscard]] bool is_capturing() noexcept;

/// Waits, with the GIL released, until all work on the device is complete that may use the memory
/// (`synchronize_users`). Throws CudaError, also while `is_capturing`. Called with the GIL.
void wait_for_device(int device, cuda::DevicePtr memory);

}  // namespace shmtensor::python
