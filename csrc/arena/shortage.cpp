#include "arena/shortage.hpp"

#include "base/align.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

std::string in_mib(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
}

}  // namespace

OutOfMemory cannot_share(std::uint64_t size, const std::string& why) {
  const std::string shown = size < kMiB ? std::to_string(size) + " bytes" : in_mib(size);
  return OutOfMemory("cannot share " + shown + ": " + why);
}

std::string shortage_of(std::uint64_t size, const Budget& budget,
                        const AvailableMemory& available) {
  const std::uint64_t limit = budget.limit();
  if (size > limit || budget.reserved() > limit - size) return over_limit(budget);
  return shortage_of(size, available);
}

std::string shortage_of(std::uint64_t size, const AvailableMemory& available) {
  if (size <= available.bytes) return {};
  const bool is_limit = available.limited_by.starts_with("memory cgroup");
  return in_mib(available.bytes) + " are available (" + available.limited_by + "); free memory" +
         (is_limit ? " or raise that limit" : "");
}

std::string over_limit(const Budget& budget) {
  return "this process has reserved " + in_mib(budget.reserved()) + " of the " +
         in_mib(budget.limit()) +
         " that shmtensor.set_limit or SHMTENSOR_MAX_BYTES allows; free tensors or raise it";
}

std::string refused_by_kernel(Strategy strategy) {
  if (strategy != Strategy::file_system) {
    return "the kernel has no more shared memory; free tensors, or check the limits of the memory "
           "cgroup, vm.overcommit_memory and RLIMIT_FSIZE";
  }
  const ShmSpace space = shm_space();
  return "/dev/shm has " + in_mib(space.free) + " free of " + in_mib(space.total) +
         "; enlarge it (docker run --shm-size, mount -o remount,size=), free tensors, or use the "
         "file_descriptor sharing strategy, which it does not limit";
}

}  // namespace shmtensor
