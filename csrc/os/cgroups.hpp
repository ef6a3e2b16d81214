// The cgroups of this process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shmtensor {

struct CgroupFolder {
  std::string path;
  bool is_version2 = false;
};

/// Returns the folders of this process's groups with the controller, each followed by those of its
/// ancestors, any of which may have a limit, as they are mounted below /sys/fs/cgroup. In a
/// container, the last one is of the container's group; others may not exist. `root` replaces "/".
[[nodiscard]] std::vector<CgroupFolder> cgroup_folders(std::string_view controller,
                                                       const std::string& root = "");

}  // namespace shmtensor
