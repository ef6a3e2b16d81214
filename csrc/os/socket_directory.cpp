#include "os/socket_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "os/same_user.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr int kAttempts = 200;
constexpr std::chrono::milliseconds kBetweenAttempts{10};

Fd open_directory(const std::string& path) {
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw_os("open the directory " + path);
  return directory;
}

// A lock of the directory. The kernel removes it when this process ends, unless a child that it has
// forked meanwhile has the descriptor.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& path) : directory_(open_directory(path)) {
    for (int attempt = 0; ::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw_os("lock the directory " + path);
      if (attempt == kAttempts) {
        throw Error(
            "cannot lock the directory " + path +
            ": a process that starts a session in it does not finish; end it if it is stopped");
      }
      std::this_thread::sleep_for(kBetweenAttempts);
    }
  }
  ~DirectoryLock() { ::flock(directory_.get(), LOCK_UN); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  Fd directory_;
};

}  // namespace

SocketDirectory::SocketDirectory(std::string path, std::string prefix, std::size_t name_size)
    : path_(std::move(path)), prefix_(std::move(prefix)) {
  const std::size_t most = sizeof(sockaddr_un::sun_path) - 1 - (name_size + 1);
  if (!path_.starts_with('/') || path_.size() > most) {
    throw Error("cannot use the directory " + path_ +
                ": its path must begin with / and have at most " + std::to_string(most) +
                " characters");
  }
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) throw_os("make the directory " + path_);
  const Fd directory = open_directory(path_);
  struct stat info{};
  if (::fstat(directory.get(), &info) != 0) throw_os("inspect the directory " + path_);
  if (!owns_file(directory)) {
    throw Error("cannot use the directory " + path_ + ": it belongs to another user");
  }
  if ((info.st_mode & 077) != 0) {
    throw Error("cannot use the directory " + path_ +
                ": other users may enter it; name a directory of your own, of mode 700");
  }
  identity_ = directory.identity();
}

// A file that a killed process left is in the way of `bind`. With the directory locked, no process
// is between its `bind` and its `listen`, so a file without a listener is such a file.
std::optional<Fd> SocketDirectory::listen(const std::string& name) const {
  const DirectoryLock lock(path_);
  remove_unused();
  return listen_on(path_of(name));
}

void SocketDirectory::remove(const std::string& name) const { ::unlink(path_of(name).c_str()); }

void SocketDirectory::remove_unused() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path_.c_str()), ::closedir);
  if (!folder) throw_os("list the directory " + path_);
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    struct stat info{};
    if (name.starts_with(prefix_) &&
        ::fstatat(::dirfd(folder.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(info.st_mode) && !is_listening(path_of(name))) {
      remove(name);
    }
  }
}

}  // namespace shmtensor
