// Reserves and releases the pages of a shared file.
#pragma once

#include <cstdint>

#include "os/fd.hpp"

namespace shmtensor {

/// Allocates every page of the range, and extends the file if needed, so that later accesses cannot
/// fail. Existing pages keep their contents. Returns false if memory is short. In that case a part
/// of the range may have been allocated; the caller discards the range if it holds no data.
[[nodiscard]] bool reserve_pages(const Fd& file, std::uint64_t offset, std::uint64_t size);

/// Releases the whole pages of the range to the system. They read as zeros afterwards.
void discard_pages(const Fd& file, std::uint64_t offset, std::uint64_t size) noexcept;

[[nodiscard]] std::uint64_t file_size(const Fd& file);

/// Returns the number of bytes of memory that the file occupies.
[[nodiscard]] std::uint64_t file_usage(const Fd& file) noexcept;

void set_file_size(const Fd& file, std::uint64_t size);

}  // namespace shmtensor
