// The process that shares GPU memory or an event, and may end before another process opens them.
#pragma once

#include <cstdint>

#include "cuda/driver.hpp"
#include "os/process.hpp"

namespace shmtensor::cuda {

struct Maker {
  ProcessIdentity process;
  std::uint64_t pid_namespace = 0;  ///< the namespace in which its pid is valid

  /// False for a process of another PID namespace, whose pid means nothing here.
  [[nodiscard]] bool has_ended() const noexcept { return is_known() && !is_alive(process); }
  /// Return true if an attempt to open something failed because the process has ended. The driver
  /// frees what a process shares before the process has ended, for which this waits: 0.1 s, or a
  /// second if the process is ending.
  [[nodiscard]] bool caused(const CudaError& error) const noexcept {
    const Result code = error.code();
    const bool invalid = code == kInvalidValue || code == kInvalidHandle || code == kMapFailed;
    return invalid && is_known() && ends_soon(process, 100);
  }

 private:
  [[nodiscard]] bool is_known() const noexcept {
    return pid_namespace == shmtensor::pid_namespace();
  }
};

/// `Description` is IpcDescriptor or EventDescription.
template <typename Description>
Maker maker_of(const Description& shared) noexcept {
  return {{shared.pid, shared.start_time}, shared.pid_namespace};
}

}  // namespace shmtensor::cuda
