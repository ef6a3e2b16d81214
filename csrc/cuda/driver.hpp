// The CUDA driver, loaded at first use: the one place that knows where it lies.
#pragma once

#include <string>

#include "base/error.hpp"
#include "cuda/types.hpp"

namespace shmtensor::cuda {

/// A call of the driver failed; `code` is what it answered.
class CudaError : public Error {
 public:
  CudaError(Result code, const std::string& what) : Error(what), code_(code) {}
  [[nodiscard]] Result code() const noexcept { return code_; }

 private:
  Result code_;
};

/// There is no CUDA to be had in this process: no driver, no device, or a forked child.
class CudaUnavailable : public CudaError {
 public:
  using CudaError::CudaError;
};

/// The process whose memory was shared in place has ended, and nobody here has it open.
class ProducerGone : public CudaError {
 public:
  using CudaError::CudaError;
};

/// The driver's functions. A group that a driver lacks is null as a whole, and the flag says so.
/// Threads: constant once made.
class Driver {
 public:
  /// Loads libcuda.so.1, or what SHMTENSOR_LIBCUDA names, and initialises it, at the first call.
  /// Throws CudaUnavailable with the reason, the same at each call; in a process that was forked
  /// after that, always.
  static const Driver& get();

  /// The driver if this process may call it now: loaded, not in a forked child. For destructors.
  static const Driver* usable() noexcept;

#define SHMTENSOR_DECLARE(name, signature) Result(*name) signature = nullptr;
  SHMTENSOR_CUDA_REQUIRED(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_VIRTUAL_MEMORY(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_IPC(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_OPTIONAL(SHMTENSOR_DECLARE)
#undef SHMTENSOR_DECLARE

  [[nodiscard]] bool has_virtual_memory() const noexcept { return cuMemRetainAllocationHandle; }
  [[nodiscard]] bool has_ipc() const noexcept { return cuIpcOpenEventHandle; }
  [[nodiscard]] int version() const noexcept { return version_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// "CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)".
  [[nodiscard]] std::string name_of(Result code) const;

  /// Throws CudaError unless the call succeeded: "cannot <what>: <driver's name>", and what to do.
  void check(Result code, const std::string& what) const;

 private:
  Driver();
  void load();
  void init();

  std::string path_;
  int version_ = 0;
};

/// Does the code mean that all work of the process is at an end, and nothing uses its memory any
/// more?
[[nodiscard]] bool has_stopped(Result code) noexcept;

/// To be called in every forked child.
void note_fork() noexcept;
/// Return true if this process was forked after CUDA started, as far as `note_fork` says, or is a
/// raw copy. Costs two loads.
[[nodiscard]] bool forked() noexcept;
/// Throws CudaUnavailable in a process that was forked after CUDA started.
void refuse_after_fork();

}  // namespace shmtensor::cuda
