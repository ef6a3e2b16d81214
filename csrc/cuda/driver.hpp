// The CUDA driver, loaded at first use. Only this file knows its path.
#pragma once

#include <string>

#include "base/error.hpp"
#include "cuda/types.hpp"

namespace shmtensor::cuda {

/// A call of the driver failed; `code` is its result.
class CudaError : public Error {
 public:
  CudaError(Result code, const std::string& what) : Error(what), code_(code) {}
  [[nodiscard]] Result code() const noexcept { return code_; }

 private:
  Result code_;
};

/// CUDA is not available in this process: no driver, no device, or a forked child.
class CudaUnavailable : public CudaError {
 public:
  using CudaError::CudaError;
};

/// The process that exported the memory has ended, and no process here has the memory open.
class ProducerGone : public CudaError {
 public:
  using CudaError::CudaError;
};

/// The driver's functions. If a driver lacks a function of a group, all functions of that group are
/// null, and the flag of the group is false.
/// Threads: constant after construction.
class Driver {
 public:
  /// Loads libcuda.so.1, or the library that SHMTENSOR_LIBCUDA names, and initializes it, at the
  /// first call. Throws CudaUnavailable with the reason, at each call the same; always throws in a
  /// process that was forked after that.
  static const Driver& get();

  /// Returns the driver if this process may call it now: it is loaded, and this is not a forked
  /// child. For destructors.
  static const Driver* usable() noexcept;

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator
#define SHMTENSOR_DECLARE(name, signature) Result(*name) signature = nullptr;
  SHMTENSOR_CUDA_REQUIRED(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_VIRTUAL_MEMORY(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_IPC(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_PINNING(SHMTENSOR_DECLARE)
  SHMTENSOR_CUDA_OPTIONAL(SHMTENSOR_DECLARE)
#undef SHMTENSOR_DECLARE

  [[nodiscard]] bool has_virtual_memory() const noexcept { return cuMemRetainAllocationHandle; }
  [[nodiscard]] bool has_ipc() const noexcept { return cuIpcOpenEventHandle; }
  /// CUDA 12.5 or newer.
  [[nodiscard]] bool has_pinning() const noexcept { return cuCtxRecordEvent; }
  [[nodiscard]] int version() const noexcept { return version_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Returns a text such as "CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)".
  [[nodiscard]] std::string name_of(Result code) const;

  /// Throws CudaError unless the call succeeded: "cannot <what>: <driver's name>", and the remedy.
  void check(Result code, const std::string& what) const;
  /// For destructors: reports the failure of a call, unless the driver is shutting down, which has
  /// released everything itself.
  void report_failure(Result code, const char* what) const noexcept;

 private:
  Driver();
  void load();
  void init();

  std::string path_;
  int version_ = 0;
};

/// During its lifetime the calls of this thread neither fail because a stream is captured into a
/// CUDA graph, in any thread, nor invalidate the capture. Excepted are calls that query or wait for
/// what is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) noexcept;
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  int before_;
};

/// Return true if the code means that all work of the process has ended, so that nothing uses its
/// memory.
[[nodiscard]] bool has_stopped(Result code) noexcept;

/// Return true on Windows Subsystem for Linux, whose driver shares no GPU memory.
[[nodiscard]] bool on_wsl();

/// Must be called in every forked child.
void note_fork() noexcept;
/// Return true if this process was forked after CUDA was initialized, as recorded by `note_fork`,
/// or is a raw copy. Costs two loads.
[[nodiscard]] bool forked() noexcept;
/// Throws CudaUnavailable in a process that was forked after CUDA was initialized.
void refuse_after_fork();

}  // namespace shmtensor::cuda
