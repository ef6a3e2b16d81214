#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace shmtensor {
namespace {

// glibc has names for errno values only since 2.32. These are the values that the calls in os/
// return.
const char* errno_name(int code) noexcept {
  switch (code) {
#define SHMTENSOR_NAME(name) \
  case name:                 \
    return #name
    SHMTENSOR_NAME(EACCES);
    SHMTENSOR_NAME(EADDRINUSE);
    SHMTENSOR_NAME(EAGAIN);
    SHMTENSOR_NAME(EBADF);
    SHMTENSOR_NAME(EBUSY);
    SHMTENSOR_NAME(ECONNREFUSED);
    SHMTENSOR_NAME(ECONNRESET);
    SHMTENSOR_NAME(EEXIST);
    SHMTENSOR_NAME(EFBIG);
    SHMTENSOR_NAME(EINVAL);
    SHMTENSOR_NAME(EIO);
    SHMTENSOR_NAME(EISDIR);
    SHMTENSOR_NAME(EMFILE);
    SHMTENSOR_NAME(EMSGSIZE);
    SHMTENSOR_NAME(ENAMETOOLONG);
    SHMTENSOR_NAME(ENFILE);
    SHMTENSOR_NAME(ENODEV);
    SHMTENSOR_NAME(ENOENT);
    SHMTENSOR_NAME(ENOMEM);
    SHMTENSOR_NAME(ENOSPC);
    SHMTENSOR_NAME(ENOSYS);
    SHMTENSOR_NAME(ENOTDIR);
    SHMTENSOR_NAME(EPERM);
    SHMTENSOR_NAME(EPIPE);
    SHMTENSOR_NAME(EROFS);
    SHMTENSOR_NAME(ETIMEDOUT);
    SHMTENSOR_NAME(ETOOMANYREFS);
#undef SHMTENSOR_NAME
    default:
      return nullptr;
  }
}

}  // namespace

bool is_shortage(int code) noexcept { return code == EMFILE || code == ENFILE || code == ENOMEM; }

std::string errno_text(int code) {
  const char* name = errno_name(code);
  return std::system_category().message(code) + " (" +
         (name != nullptr ? name : "errno " + std::to_string(code)) + ")";
}

void throw_os(const std::string& what, int code) {
  if (code == 0) code = errno;
  throw OsError(code, "cannot " + what + ": " + errno_text(code));
}

}  // namespace shmtensor
