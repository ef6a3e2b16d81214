// Reads bytes of a file without mapping it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/fd.hpp"

namespace shmtensor {

/// Returns false if the file is shorter, or cannot be read.
[[nodiscard]] bool read_file(const Fd& file, std::uint64_t offset,
                             std::span<std::byte> bytes) noexcept;

}  // namespace shmtensor
