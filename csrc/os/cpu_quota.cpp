#include "os/cpu_quota.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>

#include "base/atomic.hpp"
#include "os/cgroups.hpp"

namespace shmtensor {
namespace {

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

}  // namespace

double read_cpu_quota(const std::string& root) {
  double least = kNoCpuQuota;
  for (const CgroupFolder& folder : cgroup_folders("cpu", root)) {
    least = std::min(least, quota_in(folder.path, folder.is_version2));
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
