#include "os/read_file.hpp"

#include <unistd.h>

#include <cerrno>

namespace shmtensor {

bool read_file(const Fd& file, std::uint64_t offset, std::span<std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace shmtensor
