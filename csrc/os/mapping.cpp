#include "os/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "base/align.hpp"
#include "base/error.hpp"

#if !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace shmtensor {
namespace {

constexpr std::uint64_t kHugePage = 2 * kMiB;

[[noreturn]] void throw_map(std::uint64_t size) {
  throw_os("map " + std::to_string(size) +
           " bytes of address space (check RLIMIT_AS, vm.max_map_count and, after mlockall, "
           "RLIMIT_MEMLOCK)");
}

}  // namespace

bool is_address_shortage(int code) noexcept { return code == ENOMEM || code == EAGAIN; }

std::uint64_t page_size() noexcept {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
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
  void* raw = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw_map(room);
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t aligned = align_up(start, kHugePage);
  const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  auto* data = reinterpret_cast<std::byte*>(aligned);
  if (::mmap(data, size, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.get(),
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
  return {data, size};
}

Mapping Mapping::anonymous(std::uint64_t size) {
  size = align_up(size, page_size());
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw_map(size);
  return {static_cast<std::byte*>(data), size};
}

bool populate(std::byte* start, std::uint64_t size, Access access) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t first = align_down(address, page_size());
  const std::uintptr_t last = align_up(address + size, page_size());
  return ::madvise(reinterpret_cast<void*>(first), last - first,
                   access == Access::read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE) == 0;
}

}  // namespace shmtensor
