#include "os/process_stat.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/fd.hpp"

namespace shmtensor {

std::size_t read_start(const char* path, std::array<char, 4096>& buffer) noexcept {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return 0;
  const ssize_t size = ::read(file.get(), buffer.data(), buffer.size() - 1);
  if (size <= 0) return 0;
  buffer[static_cast<std::size_t>(size)] = '\0';
  return static_cast<std::size_t>(size);
}

// Field 2 is the program's name in parentheses. The name may contain any character, also
// parentheses, so the fields are counted from the last parenthesis.
ProcessStat read_stat(pid_t pid) noexcept {
  std::array<char, 64> path{};
  std::array<char, 4096> text{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  if (read_start(path.data(), text) == 0) return {};
  const char* at = std::strrchr(text.data(), ')');
  if (at == nullptr) return {};
  ProcessStat stat;
  stat.state = at[1] == ' ' ? at[2] : '\0';
  for (int field = 3; (at = std::strchr(at + 1, ' ')) != nullptr; ++field) {
    const std::uint64_t value = std::strtoull(at + 1, nullptr, 10);
    if (field == 4) stat.parent = static_cast<pid_t>(value);
    if (field == 9) stat.flags = value;
    if (field == 20) stat.threads = value;
    if (field == 22) stat.start_time = value;
    if (field >= 26 && field <= 28) stat.image[static_cast<std::size_t>(field - 26)] = value;
  }
  return stat;
}

}  // namespace shmtensor
