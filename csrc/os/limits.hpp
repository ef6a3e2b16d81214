// Returns the limits of this process: memory, address space, descriptors and processors.
#pragma once

#include <cstdint>
#include <string>

namespace shmtensor {

inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

[[nodiscard]] std::uint64_t physical_memory() noexcept;

/// The memory that can be allocated now, and the limit that determines it.
struct AvailableMemory {
  std::uint64_t bytes = kUnlimited;
  std::string limited_by;  ///< "MemAvailable of this machine" or the name of a memory cgroup
};

/// Returns the smaller of the machine's MemAvailable and of what the cgroups of this process (v1
/// and v2) leave, less a reserve of a sixteenth or 32 MiB. Shared pages are charged to the process
/// that touches them first, and the kernel answers an exceeded cgroup limit with the out-of-memory
/// killer instead of an error. So the limit is checked before an allocation.
[[nodiscard]] AvailableMemory available_memory();

/// Returns RLIMIT_AS, or kUnlimited.
[[nodiscard]] std::uint64_t address_space_limit() noexcept;

/// Returns the size of the address space of this process: RLIMIT_AS, or what the kernel has for
/// processes, 128 TiB on x86-64.
[[nodiscard]] std::uint64_t address_space() noexcept;

/// Returns the soft RLIMIT_NOFILE.
[[nodiscard]] std::uint64_t descriptor_limit() noexcept;

/// Raises a soft limit (RLIMIT_NOFILE and the like) to the hard one.
void raise_soft_limit(int resource) noexcept;

/// Returns the number of the processor on which this thread runs; -1 if that is not known.
[[nodiscard]] int present_processor() noexcept;

/// Returns the number of processors on which this thread may run.
[[nodiscard]] int usable_processors() noexcept;

}  // namespace shmtensor
