#include "os/page_reservation.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/align.hpp"
#include "base/error.hpp"
#include "os/mapping.hpp"

namespace shmtensor {
namespace {

// A signal makes fallocate undo its work and fail with EINTR. With small steps, a process with a
// fast interval timer still makes progress.
constexpr std::uint64_t kStep = 16 * kMiB;

// Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ.
bool over_file_size_limit(std::uint64_t end) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         end > limit.rlim_cur;
}

}  // namespace

bool reserve_pages(const Fd& file, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t end = offset + size;
  if (over_file_size_limit(end)) return false;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t step = std::min(kStep, end - at);
    if (::fallocate(file.get(), 0, static_cast<off_t>(at), static_cast<off_t>(step)) == 0) {
      at += step;
    } else if (errno != EINTR) {
      if (errno == ENOSPC || errno == ENOMEM || errno == EFBIG || errno == EDQUOT) return false;
      throw_os("reserve " + std::to_string(size) + " bytes of shared memory");
    }
  }
  return true;
}

void discard_pages(const Fd& file, std::uint64_t offset, std::uint64_t size) noexcept {
  const std::uint64_t first = align_up(offset, page_size());
  const std::uint64_t last = align_down(offset + size, page_size());
  if (first >= last) return;
  while (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(first), static_cast<off_t>(last - first)) != 0 &&
         errno == EINTR) {
  }
}

std::uint64_t file_size(const Fd& file) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_os("inspect a shared file");
  return static_cast<std::uint64_t>(info.st_size);
}

std::uint64_t file_usage(const Fd& file) noexcept {
  struct stat info{};
  return ::fstat(file.get(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

void set_file_size(const Fd& file, std::uint64_t size) {
  if (over_file_size_limit(size)) {
    throw OutOfMemory(
        "cannot size a shared file: RLIMIT_FSIZE does not allow " + std::to_string(size) +
        " bytes; raise it (ulimit -f). The file is sparse; only used pages take memory");
  }
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) throw_os("size a shared file");
}

}  // namespace shmtensor
