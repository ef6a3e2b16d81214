// A lock by which other processes see that this one lives, in whatever PID namespace it is and
// whatever descriptors it closes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "os/fd.hpp"

namespace shmtensor {

/// A read lock on one byte of a file. The kernel releases it when this process ends or executes
/// another program, and when the object is destroyed. Move-only. A forked child does not inherit
/// the lock; its copy of the object does nothing.
class ProcessLock {
 public:
  ProcessLock() noexcept = default;
  ProcessLock(ProcessLock&& other) noexcept
      : owner_(other.owner_), page_(std::exchange(other.page_, nullptr)) {}
  ProcessLock& operator=(ProcessLock&& other) noexcept;
  ~ProcessLock() { reset(); }

  /// Empty where it cannot be had: /proc is not mounted, or no descriptor or mapping is left.
  /// Async-signal-safe, for the fork handler of a child.
  static ProcessLock take(const Fd& file, std::uint64_t byte) noexcept;

  explicit operator bool() const noexcept { return page_ != nullptr; }

 private:
  void reset() noexcept;

  pid_t owner_ = 0;
  void* page_ = nullptr;
};

/// Return true if a process has locked the byte. Also true if the kernel cannot tell.
[[nodiscard]] bool is_locked(const Fd& file, std::uint64_t byte) noexcept;

}  // namespace shmtensor
