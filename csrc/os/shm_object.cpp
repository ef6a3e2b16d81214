#include "os/shm_object.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/error.hpp"
#include "os/same_user.hpp"

namespace shmtensor {
namespace {

constexpr const char* kFolder = "/dev/shm";

// The kernel refuses a read lease while any process has the file open for writing; a mapping keeps
// the file open after its descriptor is closed. A process that opens the file during the lease
// waits until the lease ends with this descriptor. The kernel notifies the holder by a signal: by
// SIGURG, which is ignored by default.
bool lease(const Fd& file) noexcept {
  ::fcntl(file.get(), F_SETSIG, SIGURG);
  return ::fcntl(file.get(), F_SETLEASE, F_RDLCK) == 0;
}

// Return true if the object belongs to this user. If the uid is ambiguous the object is opened:
// only the owner may read it.
bool is_ours(int folder, const char* name, const struct stat& info) {
  if (info.st_uid != ::geteuid()) return false;
  if (!uid_is_ambiguous()) return true;
  const Fd file(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && is_shortage(errno)) throw_os(std::string("open /dev/shm/") + name);
  return file && owns_file(file);
}

}  // namespace

Fd create_shm(const std::string& name) {
  while (true) {
    Fd file(::shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) throw_os("create the shared memory object /dev/shm/" + name);
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) throw_os("inspect /dev/shm/" + name);
    // The name exists shortly before the file is open: see `unlink_unused_shm`.
    if (info.st_nlink != 0) return file;
  }
}

Fd open_shm(const std::string& name) {
  const int fd = ::shm_open(("/" + name).c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) throw_os("open the shared memory object /dev/shm/" + name);
  return Fd(fd);
}

bool unlink_shm(const std::string& name) noexcept {
  return ::shm_unlink(("/" + name).c_str()) == 0;
}

std::vector<std::string> list_shm(const std::string& prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kFolder), ::closedir);
  if (!folder && is_shortage(errno)) throw_os(std::string("list ") + kFolder);
  if (!folder) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    struct stat info{};
    if (name.starts_with(prefix) &&
        ::fstatat(::dirfd(folder.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode) && is_ours(::dirfd(folder.get()), entry->d_name, info)) {
      names.push_back(name);
    }
  }
  return names;
}

std::optional<bool> shm_in_use(const std::string& name) noexcept {
  const Fd file(::shm_open(("/" + name).c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!file) return errno == ENOENT ? std::optional(false) : std::nullopt;
  if (lease(file)) return false;
  return errno == EAGAIN ? std::optional(true) : std::nullopt;
}

// A process that opens the object during the check waits until the name is removed; `create_shm`
// detects that. Of several that remove it, the one with the lock does: the others must not remove
// the next object of that name.
Fd unlink_unused_shm(const std::string& name) noexcept {
  Fd file(::shm_open(("/" + name).c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !lease(file)) return {};
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || info.st_nlink == 0 || !unlink_shm(name)) return {};
  ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
  return file;
}

ShmSpace shm_space() noexcept {
  struct statvfs info{};
  if (::statvfs(kFolder, &info) != 0) return {};
  return {info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

}  // namespace shmtensor
