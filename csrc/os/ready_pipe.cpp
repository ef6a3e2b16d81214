#include "os/ready_pipe.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace shmtensor {
namespace {

// The inode number of an anonymous pipe, which is the same in every process; 0 for any other file.
std::uint32_t pipe_number(int descriptor) noexcept {
  struct statfs system{};
  struct stat info{};
  if (::fstatfs(descriptor, &system) != 0 || system.f_type != PIPEFS_MAGIC ||
      ::fstat(descriptor, &info) != 0) {
    return 0;
  }
  const bool fits = info.st_ino <= std::numeric_limits<std::uint32_t>::max();
  return fits ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

}  // namespace

// One descriptor with both ends: opened again through /proc. An eventfd would be simpler, but all
// eventfds have one inode, so a descriptor that the program closed could not be distinguished from
// another.
ReadyPipe ReadyPipe::create() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_os("create a pipe");
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  const std::string path = "/proc/self/fd/" + std::to_string(reader.get());
  Fd both(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!both) throw_os("open a pipe again through " + path + " (is /proc mounted?)");
  return ReadyPipe(std::move(both));
}

ReadyPipe::ReadyPipe(Fd descriptor)
    : descriptor_(std::move(descriptor)),
      identity_(descriptor_.identity()),
      number_(pipe_number(descriptor_.get())) {}

ReadyPipe& ReadyPipe::operator=(ReadyPipe&& other) noexcept {
  forget_if_closed();
  descriptor_ = std::move(other.descriptor_);
  identity_ = other.identity_;
  number_ = other.number_;
  return *this;
}

// A full pipe is readable already.
void ReadyPipe::raise() const noexcept {
  if (is_open()) static_cast<void>(::write(descriptor_.get(), "", 1));
}

void ReadyPipe::lower() const noexcept {
  std::array<char, 64> unread{};
  while (is_open() && ::read(descriptor_.get(), unread.data(), unread.size()) > 0) {
  }
}

bool ReadyPipe::is_raised() const noexcept { return is_open() && is_readable(descriptor_); }

void ReadyPipe::forget_if_closed() noexcept {
  if (descriptor_ && !is_open()) static_cast<void>(descriptor_.release());
}

}  // namespace shmtensor
