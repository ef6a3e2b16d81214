// Reserving and giving back the pages of a shared file.
#pragma once

#include <cstdint>

#include "os/fd.hpp"

namespace shmtensor {

/// Allocates every page of the range now and extends the file over it if need be, so that touching
/// it later cannot fail. Pages that exist keep their contents. False when memory is short: then a
/// part of the range may have been allocated, and a caller that knows it holds nothing discards it.
[[nodiscard]] bool reserve_pages(const Fd& file, std::uint64_t offset, std::uint64_t size);

/// Gives the whole pages of the range back to the system; they read as zeros afterwards.
void discard_pages(const Fd& file, std::uint64_t offset, std::uint64_t size) noexcept;

[[nodiscard]] std::uint64_t file_size(const Fd& file);

/// Bytes of memory the file occupies.
[[nodiscard]] std::uint64_t file_usage(const Fd& file) noexcept;

void set_file_size(const Fd& file, std::uint64_t size);

}  // namespace shmtensor
