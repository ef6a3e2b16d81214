// What the driver reports of a device to a process that does not use it.
#pragma once

#include <string>
#include <vector>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

struct DeviceSummary {
  std::string name;
  Uuid uuid{};
  bool virtual_memory = false;  ///< memory of this library can be shared
  bool ipc = false;             ///< memory of other libraries, and events
  bool integrated = false;      ///< its memory is the host's
  bool mps = false;             ///< a client of the Multi-Process Service
  bool exclusive = false;       ///< one process at a time, or none, may use it
  std::vector<int> peers;       ///< whose memory it can access
};

/// Creates no context. Throws CudaError.
[[nodiscard]] DeviceSummary summarize_device(int number);

}  // namespace shmtensor::cuda
