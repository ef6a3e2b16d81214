#include "os/process_lock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "os/fork_mark.hpp"
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

// An open file description lock lasts as long as the open file description. Here a mapping alone
// holds that description, so the lock outlives a program that closes all its descriptors, ends with
// the address space, and is not copied by fork. The file is opened again through /proc, since a
// duplicate of the descriptor shares the open file description with other processes. The path names
// this thread, because the first thread may have ended.
ProcessLock ProcessLock::take(const Fd& file, std::uint64_t byte) noexcept {
  std::array<char, 48> path{};
  std::snprintf(path.data(), path.size(), "/proc/thread-self/fd/%d", file.get());
  const Fd opened(::open(path.data(), O_RDONLY | O_CLOEXEC));
  struct flock lock = on_byte(byte, F_RDLCK);
  if (!opened || ::fcntl(opened.get(), F_OFD_SETLK, &lock) != 0) return {};
  void* page = ::mmap(nullptr, page_size(), PROT_NONE, MAP_SHARED, opened.get(), 0);
  if (page == MAP_FAILED) return {};
  ProcessLock taken;
  taken.owner_ = fork_depth();
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

// In a forked child this address is unmapped, or used by another mapping.
void ProcessLock::reset() noexcept {
  if (page_ != nullptr && owner_ == fork_depth()) ::munmap(page_, page_size());
  page_ = nullptr;
}

bool is_locked(const Fd& file, std::uint64_t byte) noexcept {
  struct flock lock = on_byte(byte, F_WRLCK);
  return ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace shmtensor
