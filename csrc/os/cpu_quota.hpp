// Returns the CPU quota of this process's cgroups.
#pragma once

#include <limits>
#include <string>

namespace shmtensor {

inline constexpr double kNoCpuQuota = std::numeric_limits<double>::infinity();

/// Returns how many processors' time the cgroups of this process (v1 and v2) may use: the least of
/// the group's quota and its ancestors'. It is read once per process. Files that are missing or
/// malformed mean no quota. Threads: may be called simultaneously.
[[nodiscard]] double cpu_quota() noexcept;

/// The same, read now, from a tree of files in the folder `root` instead of "/".
[[nodiscard]] double read_cpu_quota(const std::string& root);

}  // namespace shmtensor
