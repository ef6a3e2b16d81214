#include "cuda/peer_access.hpp"

#include <bitset>
#include <cstddef>
#include <iterator>
#include <map>
#include <new>

#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

struct Mapping {
  std::uint64_t size = 0;
  int device = 0;
  int flags = 0;
  std::bitset<Gpu::kMost> asked;    ///< peers for which the driver was asked
  std::bitset<Gpu::kMost> granted;  ///< those of them that have access
};

/// Never destroyed, and without heap memory: destructors of other objects use it.
struct Mappings {
  Mutex mutex;
  std::map<DevicePtr, Mapping> all GUARDED_BY(mutex);
};
Mappings& mappings() noexcept {
  alignas(Mappings) static std::byte place[sizeof(Mappings)];
  static auto* const made = new (place) Mappings;
  return *made;
}

}  // namespace

void list_mapping(DevicePtr start, std::uint64_t size, int device, int flags) {
  Mappings& here = mappings();
  const LockGuard guard(here.mutex);
  Mapping& mapping = here.all[start];
  mapping = {};
  mapping.size = size;
  mapping.device = device;
  mapping.flags = flags;
}

void unlist_mapping(DevicePtr start) noexcept {
  Mappings& here = mappings();
  const LockGuard guard(here.mutex);
  here.all.erase(start);
}

// The lock is held during the call, so that the memory is not unmapped.
bool let_access(int peer, DevicePtr memory) {
  const Driver& driver = Driver::get();
  Mappings& here = mappings();
  const LockGuard guard(here.mutex);
  const auto next = here.all.upper_bound(memory);
  if (next == here.all.begin()) return true;
  auto& [start, mapping] = *std::prev(next);
  if (memory - start >= mapping.size || peer == mapping.device) return true;
  const auto bit = static_cast<std::size_t>(peer);
  if (!mapping.asked[bit]) {
    mapping.asked.set(bit);
    const RelaxedCapture relaxed(driver);
    const AccessDescription who{{kLocationDevice, peer}, mapping.flags};
    mapping.granted[bit] = can_access_peer(driver, peer, mapping.device) &&
                           driver.cuMemSetAccess(start, mapping.size, &who, 1) == kSuccess;
  }
  return mapping.granted[bit];
}

void let_used_peers_access(DevicePtr memory) {
  for_each_used([memory](int peer) { static_cast<void>(let_access(peer, memory)); });
}

}  // namespace shmtensor::cuda
