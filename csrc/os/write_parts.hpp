// Writes two ranges of memory with one system call.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

namespace shmtensor {

/// Two ranges of memory that are written to a descriptor one after the other.
class WriteParts {
 public:
  WriteParts(std::span<const std::byte> first, std::span<const std::byte> second) noexcept;

  /// Makes one system call, which may write a part of the remaining bytes. Returns zero or an errno
  /// value.
  [[nodiscard]] int write_to(int descriptor) noexcept;
  [[nodiscard]] bool done() const noexcept { return next_ == parts_.size(); }

 private:
  std::array<iovec, 2> parts_;
  std::size_t next_ = 0;
};

}  // namespace shmtensor
