#include "os/mapped_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"

namespace shmtensor {

MappedFile map_file(const std::string& path, std::uint64_t size, Access access) {
  const bool writable = access == Access::read_write;
  const int flags = writable ? O_RDWR | (size != 0 ? O_CREAT : 0) : O_RDONLY;
  // Without O_NONBLOCK, opening a pipe waits for another process to open its other end.
  const Fd file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file) throw_os("open " + path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_os("inspect " + path);
  if (!S_ISREG(info.st_mode)) throw_os("map " + path + ", which is not a regular file", EINVAL);
  const auto present = static_cast<std::uint64_t>(info.st_size);
  if (size == 0) size = present;
  if (size == 0) throw_os("map " + path + ", which is empty", EINVAL);
  if (size > present) {
    if (!writable) {
      throw_os("map " + std::to_string(size) + " bytes of " + path + ", which has " +
                   std::to_string(present),
               EINVAL);
    }
    // An access past the end of a file, or in a hole on a full disk, raises SIGBUS.
    int code = EINTR;  // in steps it would fill the disk before it fails
    while (code == EINTR) {
      code = ::posix_fallocate(file.get(), static_cast<off_t>(present),
                               static_cast<off_t>(size - present));
    }
    if (code != 0) throw_os("extend " + path + " to " + std::to_string(size) + " bytes", code);
  }
  return {Mapping::of_file(file, 0, size, access), {info.st_dev, info.st_ino}, size};
}

}  // namespace shmtensor
