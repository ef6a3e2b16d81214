#include "cuda/maker.hpp"

namespace shmtensor::cuda {

bool Maker::has_ended() const noexcept {
  return pid_namespace == shmtensor::pid_namespace() && !is_alive(process);
}

bool Maker::caused(const CudaError& error) const noexcept {
  const Result code = error.code();
  const bool invalid = code == kInvalidValue || code == kInvalidHandle || code == kMapFailed;
  return invalid && pid_namespace == shmtensor::pid_namespace() && ends_soon(process, 100);
}

}  // namespace shmtensor::cuda
