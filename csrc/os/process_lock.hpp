// A lock by which other processes detect that this process is alive. It works across PID namespaces
// and outlives descriptors that the process closes.
#pragma once

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

  /// Returns an empty object if /proc is not mounted, or if no descriptor or mapping is left.
  /// Async-signal-safe, since the fork handler of a child calls it.
  static ProcessLock take(const Fd& file, std::uint64_t byte) noexcept;

  explicit operator bool() const noexcept { return page_ != nullptr; }

 private:
  void reset() noexcept;

  std::uint32_t owner_ = 0;  // its fork_depth
  void* page_ = nullptr;
};

/// Return true if a process has locked the byte. Also true if the kernel does not report it.
[[nodiscard]] bool is_locked(const Fd& file, std::uint64_t byte) noexcept;

}  // namespace shmtensor
