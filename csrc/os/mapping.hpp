// An owned range of mapped memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/fd.hpp"

namespace shmtensor {

enum class Access : std::uint8_t { read_only, read_write };

/// Owns one mmap and unmaps it. Move-only.
/// Threads: the range may be used by all; the object itself is a plain value.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }

  /// Maps `[offset, offset + size)` of the file, shared, aligned to 2 MiB. The range may lie beyond
  /// the end of the file: no page exists there until the file grows, and touching one is SIGBUS, so
  /// callers compare with the committed size first. Not part of core dumps.
  static Mapping of_file(const Fd& file, std::uint64_t offset, std::uint64_t size, Access access);

  /// Private zeroed memory whose pages come into being when touched.
  static Mapping anonymous(std::uint64_t size);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void reset() noexcept;

  /// Gives the range away, unmapped by nobody until `adopt` takes it back.
  std::byte* release() noexcept;
  static Mapping adopt(std::byte* data, std::uint64_t size) noexcept { return {data, size}; }

 private:
  Mapping(std::byte* data, std::uint64_t size) noexcept : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Fills page tables for a mapped range, allocating pages that are holes (MADV_POPULATE_*, Linux
/// 5.14). False when the kernel cannot, or memory is short; then pages come at first touch.
bool populate(std::byte* start, std::uint64_t size, Access access) noexcept;

[[nodiscard]] std::uint64_t page_size() noexcept;

}  // namespace shmtensor
