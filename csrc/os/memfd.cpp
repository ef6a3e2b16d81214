#include "os/memfd.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

#if !defined(MFD_NOEXEC_SEAL)
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#if !defined(F_ADD_SEALS)
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#endif

namespace shmtensor {

Fd create_memfd(const std::string& name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Linux 6.3 expects a flag for files that are not executable, and may require it
  // (vm.memfd_noexec). Older kernels do not know the flag and fail with EINVAL.
  long fd = ::syscall(SYS_memfd_create, name.c_str(), kFlags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = ::syscall(SYS_memfd_create, name.c_str(), kFlags);
  if (fd < 0) {
    throw_os(
        "create a memfd (shmtensor needs it for every session; allow memfd_create in the seccomp "
        "profile of the container)");
  }
  return Fd(static_cast<int>(fd));
}

// F_SEAL_SEAL: a peer could add F_SEAL_GROW, and the owner could not grow its arena any more, or
// F_SEAL_FUTURE_WRITE, and no process could map it any more.
void seal_against_shrinking(const Fd& file) {
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) throw_os("seal a memfd");
}

bool is_sealed_against_shrinking(const Fd& file) noexcept {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace shmtensor
