#include "os/mapping.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/align.hpp"
#include "base/error.hpp"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif
#if !defined(MLOCK_ONFAULT)
#define MLOCK_ONFAULT 1
#endif

namespace shmtensor {
namespace {

constexpr std::uint64_t kHugePage = 2 * kMiB;

[[noreturn]] void throw_map(std::uint64_t size) {
  throw_os("map " + std::to_string(size) +
           " bytes of address space (check RLIMIT_AS, vm.max_map_count and, after mlockall, "
           "RLIMIT_MEMLOCK)");
}

// Return true if this process has called mlockall(MCL_FUTURE) without MCL_ONFAULT: the kernel has
// populated and locked a page that was not touched.
bool locks_future_mappings() noexcept {
  void* const page =
      ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  unsigned char resident = 0;
  const bool locks = ::mincore(page, page_size(), &resident) == 0 && (resident & 1) != 0;
  ::munmap(page, page_size());
  return locks;
}

// Permits access to a mapping that was made without. In a process that locks its memory, the kernel
// populates a mapping that it makes with access. The files here consist of holes for the most part,
// which would get pages, so their pages are locked when they are touched.
void permit(std::byte* data, std::uint64_t size, int protection, bool locks) {
  if (locks) ::syscall(SYS_mlock2, data, size, MLOCK_ONFAULT);
  if (::mprotect(data, size, protection) != 0) throw_map(size);
}

}  // namespace

bool is_address_shortage(int code) noexcept { return code == ENOMEM || code == EAGAIN; }

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

std::byte* Mapping::release() noexcept {
  size_ = 0;
  return std::exchange(data_, nullptr);
}

Mapping Mapping::of_file(const Fd& file, std::uint64_t offset, std::uint64_t size, Access access) {
  size = align_up(size, page_size());
  // Huge pages need addresses congruent with file offsets: reserve a range with room to align, map
  // the file over the aligned part, and unmap the rest.
  const std::uint64_t room = size + kHugePage;
  const bool locks = locks_future_mappings();
  void* raw = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw_map(room);
  if (locks) ::munlock(raw, room);  // RLIMIT_MEMLOCK would count both mappings
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = align_up(start, kHugePage);
  auto* data = reinterpret_cast<std::byte*>(aligned);
  if (::mmap(data, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.get(),
             static_cast<off_t>(offset)) == MAP_FAILED) {
    const int code = errno;
    ::munmap(raw, room);
    errno = code;
    throw_map(size);
  }
  if (aligned > start) ::munmap(raw, aligned - start);
  const std::uintptr_t tail = aligned + size;
  if (start + room > tail) ::munmap(reinterpret_cast<void*>(tail), start + room - tail);
  ::madvise(data, size, MADV_DONTDUMP);
  Mapping mapping(data, size);
  permit(data, size, access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE, locks);
  return mapping;
}

Mapping Mapping::copy_on_write(const Fd& file, std::uint64_t offset, std::uint64_t size) {
  Mapping mapping = of_this_process(0, file.get(), offset, size);
  ::madvise(mapping.data(), mapping.size(), MADV_DONTDUMP);
  return mapping;
}

Mapping Mapping::anonymous(std::uint64_t size) {
  return of_this_process(MAP_ANONYMOUS, -1, 0, size);
}

Mapping Mapping::of_this_process(int flags, int descriptor, std::uint64_t offset,
                                 std::uint64_t size) {
  size = align_up(size, page_size());
  void* data = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE | flags, descriptor,
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED) throw_map(size);
  Mapping mapping(static_cast<std::byte*>(data), size);
  permit(mapping.data(), size, PROT_READ | PROT_WRITE, locks_future_mappings());
  return mapping;
}

bool populate(std::byte* start, std::uint64_t size) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t first = align_down(address, page_size());
  const std::uintptr_t last = align_up(address + size, page_size());
  return ::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE) == 0;
}

}  // namespace shmtensor
