// Memory pools (driver API, "Stream Ordered Memory Allocator"). Each allocation has a memory file
// of its own; its place in a stream's order is not kept but for the release.
#include "clients/pools.hpp"

#include <algorithm>

using namespace shmtensor::cuda;  // NOLINT: what follows is the library's surface

namespace shmtensor::sim {
namespace {

struct Pools {
  std::map<PoolHandle, std::unique_ptr<Pool>> all;
  std::map<int, PoolHandle> defaults;
  std::map<int, PoolHandle> chosen;
};
Pools& pools() {
  static auto* const made = new Pools;
  return *made;
}

}  // namespace

PoolHandle add_pool(Pool pool) {
  auto made = std::make_unique<Pool>(std::move(pool));
  const auto handle = reinterpret_cast<PoolHandle>(made.get());
  pools().all[handle] = std::move(made);
  return handle;
}

Pool* find_pool(PoolHandle handle) {
  const auto at = pools().all.find(handle);
  return at != pools().all.end() ? at->second.get() : nullptr;
}

PoolHandle default_pool(int device) {
  PoolHandle& pool = pools().defaults[device];
  if (pool == nullptr) pool = add_pool({.device = device, .id = new_id(), .is_default = true});
  return pool;
}

Result place(DevicePtr* out, std::uint64_t size, PoolHandle handle,
             std::shared_ptr<Physical> memory) {
  Pool& pool = *find_pool(handle);
  *out = take_addresses(memory->size());
  if (*out == 0) return kOutOfMemory;
  pool.used += size;
  pool.used_high = std::max(pool.used_high, pool.used);
  const std::uint64_t mapped = memory->size();
  state().ranges[*out] = {.size = size,
                          .kind = Kind::pool,
                          .memory = std::move(memory),
                          .id = new_id(),
                          .device = pool.device,
                          .mapped = mapped,
                          .pool = handle};
  state().allocated += mapped;
  return kSuccess;
}

int pool_handle_types(PoolHandle handle) {
  const Pool* const pool = find_pool(handle);
  return pool != nullptr ? pool->handle_types : 0;
}

void leave_pool(PoolHandle handle, std::uint64_t size) {
  if (Pool* const pool = find_pool(handle)) pool->used -= std::min(pool->used, size);
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;  // NOLINT

namespace {

PoolHandle current_pool(int device) {
  const auto at = pools().chosen.find(device);
  return at != pools().chosen.end() ? at->second : default_pool(device);
}

Result allocate(DevicePtr* out, std::size_t size, PoolHandle handle, StreamHandle stream) {
  const Pool* const pool = find_pool(handle);
  // "Imported memory pools may not create new allocations."
  if (out == nullptr || size == 0 || pool == nullptr || pool->imported) return kInvalidValue;
  if (!find_stream(stream)) return kInvalidHandle;
  const std::uint64_t rounded = (size + kGranularity - 1) / kGranularity * kGranularity;
  const auto limit =
      static_cast<std::uint64_t>(setting("SHMTENSOR_SIM_LIMIT", std::int64_t{1} << 30));
  if (state().allocated + rounded > limit) return kOutOfMemory;
  auto memory = Physical::create(rounded, pool->device, 0);
  return memory ? place(out, size, handle, std::move(memory)) : kOutOfMemory;
}

bool valid(int device) { return device >= 0 && device < device_count(); }

}  // namespace

SIM_EXPORT Result cuDeviceGetDefaultMemPool(PoolHandle* out, DeviceNumber device) {
  return call("cuDeviceGetDefaultMemPool", Needs::init, [&]() -> Result {
    if (!valid(device)) return kInvalidDevice;
    const std::lock_guard guard(state().mutex);
    *out = default_pool(device);
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceGetMemPool(PoolHandle* out, DeviceNumber device) {
  return call("cuDeviceGetMemPool", Needs::init, [&]() -> Result {
    if (!valid(device)) return kInvalidDevice;
    const std::lock_guard guard(state().mutex);
    *out = current_pool(device);
    return kSuccess;
  });
}

// "The memory pool must be local to the specified device."
SIM_EXPORT Result cuDeviceSetMemPool(DeviceNumber device, PoolHandle handle) {
  return with_pool("cuDeviceSetMemPool", handle, [&](const Pool& pool) -> Result {
    if (pool.device != device) return kInvalidValue;
    pools().chosen[device] = handle;
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolCreate(PoolHandle* out, const PoolProperties* properties) {
  return call("cuMemPoolCreate", Needs::init, [&]() -> Result {
    if (out == nullptr || properties == nullptr || properties->location.type != kLocationDevice ||
        properties->allocation_type != kAllocationPinned || !valid(properties->location.id)) {
      return kInvalidValue;
    }
    if ((properties->handle_types & ~kHandleDescriptor) != 0) return kNotSupported;
    const std::lock_guard guard(state().mutex);
    *out = add_pool({.device = properties->location.id,
                     .handle_types = properties->handle_types,
                     .id = new_id()});
    return kSuccess;
  });
}

// "Destroying the current mempool of a device sets the default mempool of that device as the
// current"; "a device's default memory pool cannot be destroyed"; outstanding allocations stay.
SIM_EXPORT Result cuMemPoolDestroy(PoolHandle handle) {
  return with_pool("cuMemPoolDestroy", handle, [&](const Pool& pool) -> Result {
    if (pool.is_default) return kInvalidValue;
    const auto at = pools().chosen.find(pool.device);
    if (at != pools().chosen.end() && at->second == handle) pools().chosen.erase(at);
    pools().all.erase(handle);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolTrimTo(PoolHandle handle, std::size_t) {
  return with_pool("cuMemPoolTrimTo", handle, [](const Pool&) { return kSuccess; });
}

// The first three are of type int, the others of 64 bits; of the latter the caller sets the
// threshold, and resets the two maxima to 0.
SIM_EXPORT Result cuMemPoolSetAttribute(PoolHandle handle, int name, void* value) {
  return with_pool("cuMemPoolSetAttribute", handle, [&](Pool& pool) -> Result {
    if (name >= kPoolFollowEvents && name <= kPoolInternalDependencies) {
      pool.attributes[name] = static_cast<std::uint64_t>(*static_cast<int*>(value));
    } else if (name == kPoolReleaseThreshold) {
      pool.attributes[name] = *static_cast<std::uint64_t*>(value);
    } else if (name == kPoolReservedHigh || name == kPoolUsedHigh) {
      if (*static_cast<std::uint64_t*>(value) != 0) return kInvalidValue;
      pool.used_high = pool.used;
    } else {
      return kInvalidValue;
    }
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolGetAttribute(PoolHandle handle, int name, void* value) {
  return with_pool("cuMemPoolGetAttribute", handle, [&](Pool& pool) -> Result {
    if (name >= kPoolFollowEvents && name <= kPoolInternalDependencies) {
      *static_cast<int*>(value) = static_cast<int>(pool.attributes[name]);
    } else if (name == kPoolReleaseThreshold) {
      *static_cast<std::uint64_t*>(value) = pool.attributes[name];
    } else if (name == kPoolReserved || name == kPoolUsed) {
      *static_cast<std::uint64_t*>(value) = pool.used;
    } else if (name == kPoolReservedHigh || name == kPoolUsedHigh) {
      *static_cast<std::uint64_t*>(value) = pool.used_high;
    } else {
      return kInvalidValue;
    }
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolSetAccess(PoolHandle handle, const AccessDescription* descriptions,
                                     std::size_t count) {
  return with_pool("cuMemPoolSetAccess", handle, [&](Pool& pool) -> Result {
    for (std::size_t i = 0; i < count; ++i) {
      const AccessDescription& one = descriptions[i];
      if (one.location.type != kLocationDevice || !valid(one.location.id)) return kInvalidDevice;
      // "Attempting to revoke access of the device where the memory resides": assumed to be
      // refused.
      if (one.location.id == pool.device && one.flags != kAccessReadWrite) return kInvalidDevice;
    }
    for (std::size_t i = 0; i < count; ++i) {
      pool.access[descriptions[i].location.id] = descriptions[i].flags;
    }
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolGetAccess(int* flags, PoolHandle handle, MemoryLocation* where) {
  return with_pool("cuMemPoolGetAccess", handle, [&](Pool& pool) -> Result {
    if (where->type != kLocationDevice || !valid(where->id)) return kInvalidValue;
    *flags = where->id == pool.device ? kAccessReadWrite : pool.access[where->id];
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemAllocFromPoolAsync(DevicePtr* out, std::size_t size, PoolHandle pool,
                                          StreamHandle stream) {
  return call("cuMemAllocFromPoolAsync", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    return allocate(out, size, pool, stream);
  });
}

SIM_EXPORT Result cuMemAllocAsync(DevicePtr* out, std::size_t size, StreamHandle stream) {
  return call("cuMemAllocAsync", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    return allocate(out, size, current_pool(current()->device), stream);
  });
}

// The memory can be reached until the stream gets here; its pool does not count it as used any more
// (assumed: tests of CuPy expect it). Memory of cuMemAlloc may be freed so, too (programming guide,
// "Stream Ordered Memory Allocator").
SIM_EXPORT Result cuMemFreeAsync(DevicePtr pointer, StreamHandle handle) {
  return call("cuMemFreeAsync", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().ranges.find(pointer);
    if (at == state().ranges.end()) return kInvalidValue;
    Range& range = at->second;
    if ((range.kind != Kind::pool && range.kind != Kind::legacy) || range.freed)
      return kInvalidValue;
    const auto stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    const Result result = submit(stream, {[] { return true; },
                                          [pointer] {
                                            const std::lock_guard inner(state().mutex);
                                            release_range(pointer);
                                          }});
    if (result != kSuccess) return result;
    range.freed = true;
    if (range.kind == Kind::pool) leave_pool(range.pool, range.size);
    return kSuccess;
  });
}
