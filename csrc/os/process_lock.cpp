#include "os/process_lock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "os/mapping.hpp"

namespace shmtensor {
namespace {

struct flock on_byte(std::uint64_t byte, short type) noexcept {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

}  // namespace

// An open file description lock lasts as long as its open file. That one is kept by a mapping
// alone: it outlives a program that closes all its descriptors, ends with the address space, and
// is not copied by fork. To open the file a second time takes /proc: a duplicate of the descriptor
// would be the same open file, which others have as well. The first thread may have ended, so the
// path goes by way of this one.
ProcessLock ProcessLock::take(const Fd& file, std::uint64_t byte) noexcept {
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/thread-self/fd/%d", file.get());
  const Fd opened(::open(path.data(), O_RDONLY | O_CLOEXEC));
  struct flock lock = on_byte(byte, F_RDLCK);
  if (!opened || ::fcntl(opened.get(), F_OFD_SETLK, &lock) != 0) return {};
  void* page = ::mmap(nullptr, page_size(), PROT_NONE, MAP_SHARED, opened.get(), 0);
  if (page == MAP_FAILED) return {};
  ProcessLock taken;
  taken.owner_ = ::getpid();
  taken.page_ = page;
  return ::madvise(page, page_size(), MADV_DONTFORK) == 0 ? std::move(taken) : ProcessLock();
}

ProcessLock& ProcessLock::operator=(ProcessLock&& other) noexcept {
  if (this != &other) {
    reset();
    owner_ = other.owner_;
    page_ = std::exchange(other.page_, nullptr);
  }
  return *this;
}

// A child has nothing at this address, or something of its own.
void ProcessLock::reset() noexcept {
  if (page_ != nullptr && owner_ == ::getpid()) ::munmap(page_, page_size());
  page_ = nullptr;
}

bool is_locked(const Fd& file, std::uint64_t byte) noexcept {
  struct flock lock = on_byte(byte, F_WRLCK);
  return ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace shmtensor
