// An owned mapping of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/fd.hpp"

namespace shmtensor {

enum class Access : std::uint8_t { read_only, read_write };

/// Owns one mmap and unmaps it. Move-only.
/// Threads: all may use the range; the object itself belongs to one.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping() { reset(); }

  /// Maps `[offset, offset + size)` of the file, shared, aligned to 2 MiB. The range may extend
  /// past the end of the file. Touching a page past the end raises SIGBUS, so callers check the
  /// committed size first. The range is excluded from core dumps. In a process that has called
  /// mlockall, pages are allocated and locked when they are touched.
  static Mapping of_file(const Fd& file, std::uint64_t offset, std::uint64_t size, Access access);

  /// Maps the same range, aligned to pages, so that writes stay in this process: the kernel copies
  /// a page when it is written. Excluded from core dumps, and from the memory that the kernel
  /// commits.
  static Mapping copy_on_write(const Fd& file, std::uint64_t offset, std::uint64_t size);

  /// Maps private zeroed memory. Its pages are allocated when they are touched.
  static Mapping anonymous(std::uint64_t size);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void reset() noexcept;

  /// Returns the range and its ownership; nothing unmaps it until `adopt` takes it.
  std::byte* release() noexcept;
  static Mapping adopt(std::byte* data, std::uint64_t size) noexcept { return {data, size}; }

 private:
  Mapping(std::byte* data, std::uint64_t size) noexcept : data_(data), size_(size) {}

  /// Maps memory whose writes no other process sees; `flags` and the rest are those of mmap.
  static Mapping of_this_process(int flags, int descriptor, std::uint64_t offset,
                                 std::uint64_t size);

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Return true if the errno value of a mapping that failed means that address space, mappings or
/// lockable memory ran out.
[[nodiscard]] bool is_address_shortage(int code) noexcept;

/// Fills the page tables of a writable range and allocates pages that are holes
/// (MADV_POPULATE_WRITE, Linux 5.14). Returns false if the kernel does not support it or memory is
/// short; then pages are allocated when they are touched.
bool populate(std::byte* start, std::uint64_t size) noexcept;

[[nodiscard]] std::uint64_t page_size() noexcept;

}  // namespace shmtensor
