// How much memory, address space and how many descriptors this process may have.
#pragma once

#include <cstdint>
#include <string>

namespace shmtensor {

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

[[nodiscard]] std::uint64_t physical_memory() noexcept;

/// Memory that could be allocated now, and who says so.
struct AvailableMemory {
  std::uint64_t bytes = kUnlimited;
  std::string limited_by;  ///< "MemAvailable of this machine" or a memory cgroup's name
};

/// The smaller of the machine's MemAvailable and what the cgroups of this process leave (v1 and
/// v2), less a sixteenth or 32 MiB for everything else. Shared pages are charged to whoever touches
/// them first, and going over a cgroup's limit means the out-of-memory killer, not an error: so it
/// is asked before, not found out.
[[nodiscard]] AvailableMemory available_memory();

/// RLIMIT_AS, or kUnlimited.
[[nodiscard]] std::uint64_t address_space_limit() noexcept;

/// Soft RLIMIT_NOFILE.
[[nodiscard]] std::uint64_t descriptor_limit() noexcept;

/// Raises the soft RLIMIT_NOFILE to the hard one.
void raise_descriptor_limit() noexcept;

/// Descriptors this process has open.
[[nodiscard]] std::uint64_t open_descriptors() noexcept;

/// Entries in /proc/self/maps.
[[nodiscard]] std::uint64_t mapping_count() noexcept;

}  // namespace shmtensor
