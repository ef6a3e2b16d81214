#include "support/private_shm.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "os/fd.hpp"
#include "support/child.hpp"

namespace shmtensor::testing {
namespace {

bool write_text(const char* path, const std::string& text) {
  const Fd file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A process that is not root becomes root in a user namespace, as the same user outside.
bool enter_mount_namespace() {
  if (::unshare(CLONE_NEWNS) == 0) return true;
  const std::string uid = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return write_text("/proc/self/uid_map", uid + " " + uid + " 1");
}

}  // namespace

bool enter_private_shm(std::uint64_t size) {
  const std::string options = "mode=1777,size=" + std::to_string(size);
  return enter_mount_namespace() &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
}

bool private_shm_works() {
  static const bool works = exit_of([] { return enter_private_shm(1 << 20) ? 0 : 1; }) == 0;
  return works;
}

}  // namespace shmtensor::testing
