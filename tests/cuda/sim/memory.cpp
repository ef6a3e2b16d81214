// Device addresses, plain allocations, attributes of pointers.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;
constexpr std::uint64_t kStep = 512;

constexpr std::uint64_t up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

DevicePtr take_addresses(std::uint64_t size) {
  size = up(size, kGranularity);
  auto& free = state().free_addresses;
  for (auto at = free.begin(); at != free.end(); ++at) {
    if (at->second < size) continue;
    const auto [start, length] = *at;
    free.erase(at);
    if (length > size) free[start + size] = length - size;
    return start;
  }
  return 0;
}

// Lowest addresses first: freed memory is soon reused, which exposes stale pointers.
void give_addresses(DevicePtr start, std::uint64_t size) {
  size = up(size, kGranularity);
  auto& free = state().free_addresses;
  const auto next = free.lower_bound(start);
  if (next != free.end() && next->first == start + size) {
    size += next->second;
    free.erase(next);
  }
  free[start] = size;
}

// "Each context has its own distinct address space. As a result, CUdeviceptr values from different
// contexts reference different memory locations" (programming guide, "Driver API", "Context").
// Copies between devices are an exception: "when a unified address space is used for both devices,
// this is done using the regular memory copy functions" ("Peer-to-Peer Memory Copy"); so are
// virtual memory and pools, to which access is granted by device.
bool in_current_context(const Range& range) {
  const bool of_context = range.kind == Kind::legacy || range.kind == Kind::imported;
  const Context* const here = current();
  return !of_context || here == nullptr || here->device != range.device ||
         range.context == reinterpret_cast<ContextHandle>(current());
}

// Virtual memory is accessed by the devices for which cuMemSetAccess was called; a copy by another
// one fails (cuda.core's test_peer_access).
int access_of(const Range& range, int device) {
  if (range.kind != Kind::virtual_memory) return cuda::kAccessReadWrite;
  const auto at = range.access.find(device);
  return at != range.access.end() ? at->second : 0;
}

std::map<DevicePtr, Range>::iterator find_range(DevicePtr pointer) {
  auto& ranges = state().ranges;
  auto at = ranges.upper_bound(pointer);
  if (at == ranges.begin()) return ranges.end();
  --at;
  return pointer < at->first + at->second.size ? at : ranges.end();
}

std::vector<Piece> resolve(DevicePtr pointer, std::uint64_t size, bool write, Result& problem) {
  std::vector<Piece> pieces;
  problem = 0;
  while (size > 0) {
    const auto at = find_range(pointer);
    if (at == state().ranges.end()) {
      const auto* const host = find_host_memory(pointer);
      if (host != nullptr && pointer + size <= host->first + host->second.size) {
        pieces.push_back({nullptr, reinterpret_cast<unsigned char*>(pointer), size});
        return pieces;
      }
    }
    if (at == state().ranges.end() || !in_current_context(at->second)) {
      problem = cuda::kInvalidValue;
      return {};
    }
    const Range& range = at->second;
    const int access = access_of(range, current() != nullptr ? current()->device : range.device);
    if (access == 0 || (write && access == cuda::kAccessRead)) {
      problem = cuda::kInvalidValue;
      return {};
    }
    const std::uint64_t inside = pointer - at->first;
    const std::uint64_t count = std::min(size, range.size - inside);
    pieces.push_back({range.memory, range.memory->bytes() + range.offset + inside, count});
    pointer += count;
    size -= count;
  }
  return pieces;
}

void release_range(DevicePtr pointer) {
  State& all = state();
  const Range range = all.ranges.at(pointer);
  if (range.kind != Kind::pool || range.memory->header().owner == ::getpid()) {
    std::memset(range.memory->bytes() + range.offset, 0xDD, range.size);  // exposes use after free
  }
  forget_export(range.id);
  if (range.kind == Kind::pool && !range.freed) leave_pool(range.pool, range.size);
  all.ranges.erase(pointer);
  if (range.mapped != 0) {
    give_addresses(pointer, range.mapped);
    all.allocated -= range.mapped;
    return;
  }
  const DevicePtr base = pointer - range.offset;
  if (--all.small_users[base] == 0 && base != all.small_base) {
    give_addresses(base, kGranularity);
    all.allocated -= kGranularity;
  }
}

bool overlap(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  if (a.empty() || b.empty() || !a.front().memory || !b.front().memory) return false;
  for (const Piece& one : a) {
    for (const Piece& other : b) {
      if (one.memory->header().id != other.memory->header().id) continue;
      const auto first = one.bytes - one.memory->bytes();
      const auto second = other.bytes - other.memory->bytes();
      if (first < second + static_cast<std::ptrdiff_t>(other.size) &&
          second < first + static_cast<std::ptrdiff_t>(one.size)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

bool over_limit(std::uint64_t size) {
  const auto limit =
      static_cast<std::uint64_t>(setting("SHMTENSOR_SIM_LIMIT", std::int64_t{1} << 30));
  return state().allocated + size > limit;
}

// Small requests share a block, so that a pointer is not the start of what a handle exposes.
Result allocate_small(DevicePtr* out, std::uint64_t size) {
  State& all = state();
  const std::uint64_t rounded = up(size, kStep);
  if (!all.small_block || all.small_used + rounded > kGranularity) {
    if (over_limit(kGranularity)) return kOutOfMemory;
    all.small_block = Physical::create(kGranularity, current()->device, 0);
    if (!all.small_block) return kOutOfMemory;
    all.small_base = take_addresses(kGranularity);
    all.small_used = 0;
    all.allocated += kGranularity;
  }
  *out = all.small_base + all.small_used;
  all.ranges[*out] = {.size = size,
                      .memory = all.small_block,
                      .offset = all.small_used,
                      .id = new_id(),
                      .device = current()->device,
                      .context = reinterpret_cast<ContextHandle>(current())};
  all.small_used += rounded;
  ++all.small_users[all.small_base];
  return kSuccess;
}

Result allocate_large(DevicePtr* out, std::uint64_t size, Kind kind) {
  State& all = state();
  if (over_limit(size)) return kOutOfMemory;
  auto memory = Physical::create(up(size, kGranularity), current()->device, 0);
  if (!memory) return kOutOfMemory;
  *out = take_addresses(size);
  if (*out == 0) return kOutOfMemory;
  all.ranges[*out] = {.size = size,
                      .kind = kind,
                      .memory = std::move(memory),
                      .id = new_id(),
                      .device = current()->device,
                      .mapped = up(size, kGranularity),
                      .context = reinterpret_cast<ContextHandle>(current())};
  all.allocated += up(size, kGranularity);
  return kSuccess;
}

// Some drivers deny it for cudaMalloc's memory; without a context every driver does.
bool reports_capable() {
  return current() != nullptr && setting("SHMTENSOR_SIM_IPC_CAPABLE", 1) != 0;
}

// "Not necessarily the address of the mapped region, but the address of the mappable address range"
// (driver API, RANGE_START_ADDR): for virtual memory the reservation, mapped or not.
std::pair<DevicePtr, std::uint64_t> whole_range(DevicePtr pointer) {
  const auto at = find_range(pointer);
  if (at != state().ranges.end() && at->second.kind != Kind::virtual_memory) {
    return {at->first, at->second.size};
  }
  const auto next = state().reservations.upper_bound(pointer);
  if (next == state().reservations.begin()) return {0, 0};
  const auto [start, size] = *std::prev(next);
  return pointer - start < size ? std::pair(start, size)
                                : std::pair(DevicePtr{0}, std::uint64_t{0});
}

}  // namespace

SIM_EXPORT Result cuMemAlloc_v2(DevicePtr* out, std::size_t size) {
  return call("cuMemAlloc_v2", Needs::context, [&]() -> Result {
    if (size == 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    return size < kSmall ? allocate_small(out, size) : allocate_large(out, size, Kind::legacy);
  });
}

SIM_EXPORT Result cuMemFree_v2(DevicePtr pointer) {
  return call("cuMemFree_v2", Needs::context, [&]() -> Result {
    State& all = state();
    std::unique_lock lock(all.mutex);
    const auto at = all.ranges.find(pointer);
    if (at == all.ranges.end()) return kInvalidValue;
    if (at->second.kind == Kind::imported || at->second.kind == Kind::virtual_memory) {
      return kInvalidValue;
    }
    finish_device(lock, at->second.device);
    release_range(pointer);
    return kSuccess;
  });
}

/// Creates "managed" memory, which no driver call here does, or memory of the default "pool".
SIM_EXPORT DevicePtr sim_allocate(const char* kind, std::size_t size) {
  const std::lock_guard guard(state().mutex);
  DevicePtr pointer = 0;
  allocate_large(&pointer, size, *kind == 'm' ? Kind::managed : Kind::pool);
  if (*kind == 'p') state().ranges.at(pointer).pool = default_pool(current()->device);
  return pointer;
}

SIM_EXPORT Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return call("cuMemGetInfo_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    *total = static_cast<std::size_t>(setting("SHMTENSOR_SIM_LIMIT", std::int64_t{1} << 30));
    *free = *total - std::min<std::size_t>(*total, state().allocated);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemGetAddressRange_v2(DevicePtr* base, std::size_t* size, DevicePtr pointer) {
  return call("cuMemGetAddressRange_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = find_range(pointer);
    if (const auto* const host = find_host_memory(pointer)) {
      if (base != nullptr) *base = host->first;
      if (size != nullptr) *size = host->second.size;
      return kSuccess;
    }
    if (at == state().ranges.end() || at->second.kind == Kind::managed) return kInvalidValue;
    if (!in_current_context(at->second)) return kInvalidValue;
    if (base != nullptr) *base = at->first;
    if (size != nullptr) *size = at->second.size;
    return kSuccess;
  });
}

SIM_EXPORT Result cuPointerGetAttributes(unsigned count, int* names, void** values,
                                         DevicePtr pointer) {
  return call("cuPointerGetAttributes", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = find_range(pointer);
    const bool known = at != state().ranges.end();
    const Range range = known ? at->second : Range{};
    const auto* const host = find_host_memory(pointer);
    for (unsigned i = 0; i < count; ++i) {
      const auto put = [&](auto value) { std::memcpy(values[i], &value, sizeof value); };
      switch (names[i]) {
        case kPointerContext:
          put(range.context);
          break;
        case kPointerMemoryType:
          put(known ? kMemoryTypeDevice : host != nullptr ? kMemoryTypeHost : 0u);
          break;
        case kPointerBufferId:
          put(known ? range.id : host != nullptr ? host->second.id : std::uint64_t{0});
          break;
        case kPointerIsManaged:
          put(range.kind == Kind::managed ? 1u : 0u);
          break;
        case kPointerDevice:
          put(known ? range.device : host != nullptr ? host->second.device : -2);
          break;
        case kPointerIpcCapable:
          put(known && range.kind == Kind::legacy && reports_capable() ? 1 : 0);
          break;
        case kPointerRangeStart:
          put(whole_range(pointer).first);
          break;
        case kPointerRangeSize:
          put(whole_range(pointer).second);
          break;
        case kPointerIsMapped:
          put(known || host != nullptr ? 1 : 0);
          break;
        case kPointerHandleTypes:
          put(static_cast<std::uint64_t>(
              range.kind == Kind::virtual_memory && range.memory
                  ? static_cast<unsigned>(range.memory->header().handle_types)
                  : static_cast<unsigned>(pool_handle_types(range.pool))));
          break;
        case kPointerPool:
          put(range.pool);
          break;
        case kPointerDeviceAddress:
          put(known || host != nullptr ? pointer : DevicePtr{0});
          break;
        case kPointerHostAddress:
          put(host != nullptr ? pointer : DevicePtr{0});
          break;
        default:
          return kInvalidValue;
      }
    }
    return kSuccess;
  });
}
