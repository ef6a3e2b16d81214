// The cgroups of this process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shmtensor {

/// A line of /proc/self/cgroup: "0::/path" is version 2, "N:cpu,cpuacct:/path" version 1.
struct Cgroup {
  std::string controllers;  ///< between commas; empty in version 2
  std::string path;

  [[nodiscard]] bool is_version2() const noexcept { return controllers.empty(); }
  [[nodiscard]] bool has(std::string_view controller) const noexcept;
};

/// Returns the well-formed lines of such a file; nothing if it cannot be read.
[[nodiscard]] std::vector<Cgroup> read_cgroups(const std::string& file = "/proc/self/cgroup");

}  // namespace shmtensor
