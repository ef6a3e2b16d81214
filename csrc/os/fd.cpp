#include "os/fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"

namespace shmtensor {

void Fd::reset() noexcept {
  // Linux frees the number even if close reports an error, so close must not be retried.
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Fd Fd::duplicate() const {
  const int copy = ::fcntl(number_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw_os("duplicate a descriptor (raise RLIMIT_NOFILE if it is exhausted)");
  return Fd(copy);
}

FileIdentity Fd::identity() const {
  struct stat info{};
  if (::fstat(number_, &info) != 0) throw_os("inspect a descriptor");
  return {info.st_dev, info.st_ino};
}

bool Fd::still_is(const FileIdentity& identity) const noexcept {
  struct stat info{};
  return number_ >= 0 && ::fstat(number_, &info) == 0 &&
         FileIdentity{info.st_dev, info.st_ino} == identity;
}

bool is_readable(const Fd& fd) noexcept {
  pollfd state{fd.get(), POLLIN, 0};
  return ::poll(&state, 1, 0) > 0;
}

}  // namespace shmtensor
