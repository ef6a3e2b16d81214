#include "os/cgroups.hpp"

#include <fstream>

namespace shmtensor {

bool Cgroup::has(std::string_view controller) const noexcept {
  for (std::string_view rest = controllers;;) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == controller) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<Cgroup> read_cgroups(const std::string& file) {
  std::vector<Cgroup> found;
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    found.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return found;
}

}  // namespace shmtensor
