#include "os/cpu_quota.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "base/atomic.hpp"
#include "os/cgroups.hpp"

namespace shmtensor {
namespace {

/// The folder of a hierarchy's mount point, and which of its groups is mounted there.
struct Mount {
  bool version2 = false;
  std::string group;
  std::string folder;
};

// mountinfo writes white space and backslashes in names as three octal digits.
std::string unescaped(const std::string& name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto digit = [&](std::size_t at) { return name.at(i + at) - '0'; };
    if (name[i] == '\\' && i + 3 < name.size()) {
      plain += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
      i += 3;
    } else {
      plain += name[i];
    }
  }
  return plain;
}

// A line is "36 35 98:0 GROUP FOLDER options optional... - TYPE source super-options".
std::optional<Mount> mount_of(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream first(line.substr(0, dash));
  std::istringstream second(line.substr(dash + 3));
  std::string skipped, group, folder, type, options;
  first >> skipped >> skipped >> skipped >> group >> folder;
  second >> type >> skipped >> options;
  const bool version2 = type == "cgroup2";
  if (!version2 && (type != "cgroup" || !Cgroup{options, {}}.has("cpu"))) return std::nullopt;
  return Mount{version2, unescaped(group), unescaped(folder)};
}

std::vector<Mount> mounts(const std::string& root) {
  std::vector<Mount> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (auto mount = mount_of(line)) found.push_back(std::move(*mount));
  }
  return found;
}

// Version 2 has both numbers in one file. No quota is "max" there, and -1 in version 1.
double quota_in(const std::string& folder, bool version2) {
  std::int64_t quota = 0;
  std::int64_t period = 0;
  std::ifstream file(folder + (version2 ? "/cpu.max" : "/cpu.cfs_quota_us"));
  std::ifstream other(folder + "/cpu.cfs_period_us");
  if (!(file >> quota) || !((version2 ? file : other) >> period)) return kNoCpuQuota;
  if (quota <= 0 || period <= 0) return kNoCpuQuota;
  return static_cast<double>(quota) / static_cast<double>(period);
}

// `group` is that of the process; the groups above the one that is mounted cannot be seen.
double least_quota(const std::string& root, const Mount& mount, const std::string& group) {
  const std::string top = mount.group == "/" ? "" : mount.group;
  if (!(group + "/").starts_with(top + "/")) return kNoCpuQuota;
  const std::string folder = root + mount.folder;
  double least = kNoCpuQuota;
  for (std::string path = group.substr(top.size());; path.erase(path.find_last_of('/'))) {
    least = std::min(least, quota_in(folder + path, mount.version2));
    if (path.empty()) return least;
  }
}

}  // namespace

double read_cpu_quota(const std::string& root) {
  double least = kNoCpuQuota;
  const std::vector<Mount> hierarchies = mounts(root);
  for (const Cgroup& group : read_cgroups(root + "/proc/self/cgroup")) {
    const bool version2 = group.is_version2();
    if ((!version2 && !group.has("cpu")) || !group.path.starts_with('/')) continue;
    for (const Mount& mount : hierarchies) {
      if (mount.version2 == version2) least = std::min(least, least_quota(root, mount, group.path));
    }
  }
  return least;
}

// No lock: a process that forks meanwhile would leave it locked in its child. Two threads that read
// the files at the same time find the same.
double cpu_quota() noexcept {
  static Atomic<double> known{0};
  double quota = known.load(std::memory_order_relaxed);
  if (quota != 0) return quota;
  try {
    quota = read_cpu_quota("");
  } catch (const std::exception&) {  // memory is short
    return kNoCpuQuota;
  }
  known.store(quota, std::memory_order_relaxed);
  return quota;
}

}  // namespace shmtensor
