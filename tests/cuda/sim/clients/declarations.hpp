// The simulator's functions, so that a definition with another signature is not compiled.
#pragma once

#include "clients/functions.hpp"

namespace shmtensor::cuda {
#define SIM_DECLARE_OWN(name, signature) \
  extern "C" __attribute__((visibility("default"))) Result name signature;
#define SIM_DECLARE(plain, version, name, signature) SIM_DECLARE_OWN(name, signature)
SHMTENSOR_CUDA_REQUIRED(SIM_DECLARE_OWN)
SHMTENSOR_CUDA_VIRTUAL_MEMORY(SIM_DECLARE_OWN)
SHMTENSOR_CUDA_IPC(SIM_DECLARE_OWN)
SHMTENSOR_CUDA_PINNING(SIM_DECLARE_OWN)
SHMTENSOR_CUDA_OPTIONAL(SIM_DECLARE_OWN)
SIM_CLIENT_FUNCTIONS(SIM_DECLARE)
SIM_CLIENT_CUDA13(SIM_DECLARE)
SIM_CLIENT_PROFILER(SIM_DECLARE)
}  // namespace shmtensor::cuda
