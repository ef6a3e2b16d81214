#include "os/cgroups.hpp"

#include <cstddef>
#include <fstream>

namespace shmtensor {

// A line of /proc/self/cgroup is "0::/path" in version 2, "N:cpu,cpuacct:/path" in version 1.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root) {
  std::vector<CgroupFolder> found;
  const std::string wanted = ',' + std::string(controller) + ',';
  std::ifstream lines(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const bool is_version2 = second == first + 1;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    if (!is_version2 && controllers.find(wanted) == std::string::npos) continue;
    std::string mount = root + "/sys/fs/cgroup";
    if (!is_version2) mount.append("/").append(controller);
    std::string path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    for (; !path.empty(); path.erase(path.find_last_of('/'))) {
      if (path != "/") found.push_back({mount + path, is_version2});
    }
    found.push_back({mount, is_version2});
  }
  return found;
}

}  // namespace shmtensor
