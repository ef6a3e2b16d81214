// Writing from several pieces of memory at once.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

namespace shmtensor {

/// Two pieces of memory on their way into a descriptor, one behind the other.
class WriteParts {
 public:
  WriteParts(std::span<const std::byte> first, std::span<const std::byte> second) noexcept;

  /// One call of the system, which may write a part of what is left. Zero or the error's number.
  [[nodiscard]] int write_to(int descriptor) noexcept;
  [[nodiscard]] bool done() const noexcept { return next_ == parts_.size(); }

 private:
  std::array<iovec, 2> parts_;
  std::size_t next_ = 0;
};

}  // namespace shmtensor
