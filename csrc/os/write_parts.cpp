#include "os/write_parts.hpp"

#include <cerrno>

namespace shmtensor {
namespace {

iovec to_part(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // writev does not modify the bytes
}

}  // namespace

WriteParts::WriteParts(std::span<const std::byte> first, std::span<const std::byte> second) noexcept
    : parts_{to_part(first), to_part(second)} {}

int WriteParts::write_to(int descriptor) noexcept {
  const ssize_t result =
      ::writev(descriptor, &parts_[next_], static_cast<int>(parts_.size() - next_));
  if (result < 0) return errno;
  auto written = static_cast<std::size_t>(result);
  while (!done() && written >= parts_[next_].iov_len) written -= parts_[next_++].iov_len;
  if (done()) return 0;
  parts_[next_].iov_base = static_cast<std::byte*>(parts_[next_].iov_base) + written;
  parts_[next_].iov_len -= written;
  return 0;
}

}  // namespace shmtensor
