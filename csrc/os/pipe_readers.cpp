#include "os/pipe_readers.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <cstdio>
#include <limits>

namespace shmtensor {
namespace {

Fd open_again(int descriptor, int flags) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", descriptor);
  return Fd(::open(path.data(), flags | O_CLOEXEC));
}

bool is_anonymous_pipe(int descriptor) noexcept {
  struct statfs system{};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

}  // namespace

std::uint32_t pipe_number(int descriptor) noexcept {
  struct stat info{};
  if (!is_anonymous_pipe(descriptor) || ::fstat(descriptor, &info) != 0) return 0;
  const bool fits = info.st_ino <= std::numeric_limits<std::uint32_t>::max();
  return fits ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

Fd open_pipe_location(int descriptor, std::uint32_t number) noexcept {
  if (number == 0) return {};
  Fd location = open_again(descriptor, O_PATH);
  return is_pipe_location(location, number) ? std::move(location) : Fd();
}

bool is_pipe_location(const Fd& location, std::uint32_t number) noexcept {
  const int flags = location ? ::fcntl(location.get(), F_GETFL) : -1;
  struct stat info{};
  return flags >= 0 && (flags & O_PATH) != 0 && ::fstat(location.get(), &info) == 0 &&
         info.st_ino == number && is_anonymous_pipe(location.get());
}

bool may_have_reader(const Fd& location) noexcept {
  const Fd writer = open_again(location.get(), O_WRONLY | O_NONBLOCK);
  if (!writer) return true;
  pollfd state{writer.get(), 0, 0};
  return ::poll(&state, 1, 0) < 0 || (state.revents & POLLERR) == 0;
}

}  // namespace shmtensor
