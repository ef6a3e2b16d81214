// The process that shares GPU memory or an event, and may end before another process opens them.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/types.hpp"
#include "os/process.hpp"

namespace shmtensor::python {

/// `Description` is cuda::IpcDescriptor or cuda::EventDescription. False for a process of another
/// PID namespace, whose pid means nothing here.
template <typename Description>
bool maker_has_ended(const Description& shared) noexcept {
  return shared.pid_namespace == pid_namespace() && !is_alive({shared.pid, shared.start_time});
}

/// Return true if an attempt to open something failed because its maker has ended. Waits for that
/// for up to a second: the driver frees what a process shares before the process has ended.
template <typename Description>
bool failed_by_end(const cuda::CudaError& error, const Description& shared) noexcept {
  const cuda::Result code = error.code();
  const bool invalid =
      code == cuda::kInvalidValue || code == cuda::kInvalidHandle || code == cuda::kMapFailed;
  return invalid && shared.pid_namespace == pid_namespace() &&
         ends_soon({shared.pid, shared.start_time});
}

}  // namespace shmtensor::python
