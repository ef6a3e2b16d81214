#include "os/limits.hpp"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <optional>

#include "base/align.hpp"
#include "os/cgroups.hpp"

namespace shmtensor {
namespace {

std::uint64_t soft_limit(__rlimit_resource_t resource) noexcept {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_cur;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Returns the value of a connection "name: N kB" or "name N" of a file such as /proc/meminfo or
// memory.stat.
std::optional<std::uint64_t> read_field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  std::uint64_t value = 0;
  std::string rest;
  while (file >> key >> value && std::getline(file, rest)) {
    if (key == name) return rest.find("kB") != std::string::npos ? value * 1024 : value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  ///< field of memory.stat: page cache that the kernel reclaims first
};

constexpr CgroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                "total_inactive_file"};

// The reserve is not used for shared memory. It is left for page tables and the program's own
// allocations; without it the next small allocation of the process would run out of memory.
std::uint64_t without_reserve(std::uint64_t left, std::uint64_t limit) {
  const std::uint64_t reserve = std::min(limit / 16, 32 * kMiB);
  return left > reserve ? left - reserve : 0;
}

void ask_cgroup(const CgroupFiles& files, const std::string& folder, AvailableMemory& available) {
  const auto limit = read_number(folder + files.limit);  // "max" is not a number
  const auto usage = read_number(folder + files.usage);
  if (!limit || !usage) return;
  const auto cache = read_field(folder + "/memory.stat", files.reclaimable).value_or(0);
  const std::uint64_t used = *usage > cache ? *usage - cache : 0;
  const std::uint64_t left = without_reserve(*limit > used ? *limit - used : 0, *limit);
  if (left < available.bytes) available = {left, "memory cgroup " + folder};
}

}  // namespace

std::uint64_t physical_memory() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

AvailableMemory available_memory() {
  AvailableMemory available;
  if (const auto bytes = read_field("/proc/meminfo", "MemAvailable:")) {
    available = {without_reserve(*bytes, physical_memory()), "MemAvailable of this machine"};
  }
  for (const CgroupFolder& folder : cgroup_folders("memory")) {
    ask_cgroup(folder.is_version2 ? kVersion2 : kVersion1, folder.path, available);
  }
  return available;
}

std::uint64_t address_space_limit() noexcept { return soft_limit(RLIMIT_AS); }

// The kernel places the first thread's stack, and on it what AT_RANDOM names, at the upper end.
std::uint64_t address_space() noexcept {
  const std::uint64_t near_the_end = ::getauxval(AT_RANDOM);
  const std::uint64_t size = near_the_end != 0 ? std::bit_ceil(near_the_end) : kUnlimited;
  return std::min(size, address_space_limit());
}

std::uint64_t descriptor_limit() noexcept { return soft_limit(RLIMIT_NOFILE); }

void raise_soft_limit(int resource) noexcept {
  rlimit limit{};
  const auto which = static_cast<__rlimit_resource_t>(resource);
  if (::getrlimit(which, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(which, &limit);
}

int present_processor() noexcept { return ::sched_getcpu(); }

// A kernel with more processors than the set has room for answers EINVAL.
int usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : CPU_SETSIZE;
}

}  // namespace shmtensor
