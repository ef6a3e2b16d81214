// Virtual memory management: physical handles, reservations, mappings, descriptors.
#include <unistd.h>

#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

bool aligned(std::uint64_t value) { return value % kGranularity == 0; }

bool known_properties(const AllocationProperties* properties) {
  return properties != nullptr && properties->type == kAllocationPinned &&
         properties->location.type == kLocationDevice && properties->location.id >= 0 &&
         properties->location.id < device_count();
}

bool reserved(DevicePtr start, std::uint64_t size) {
  auto at = state().reservations.upper_bound(start);
  if (at == state().reservations.begin()) return false;
  --at;
  return start + size <= at->first + at->second;
}

bool overlaps(DevicePtr start, std::uint64_t size) {
  auto& ranges = state().ranges;
  auto at = ranges.upper_bound(start + size - 1);
  if (at == ranges.begin()) return false;
  --at;
  return at->first + at->second.size > start;
}

MemoryHandle add_handle(std::shared_ptr<Physical> memory) {
  const MemoryHandle handle = ++state().counter + 0x1000;
  state().handles[handle] = {std::move(memory), 1};
  return handle;
}

}  // namespace

SIM_EXPORT Result cuMemGetAllocationGranularity(std::size_t* out,
                                                const AllocationProperties* properties, int) {
  return call("cuMemGetAllocationGranularity", Needs::init, [&]() -> Result {
    if (!known_properties(properties)) return kInvalidValue;
    *out = kGranularity;
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemCreate(MemoryHandle* out, std::size_t size,
                              const AllocationProperties* properties, unsigned long long flags) {
  return call("cuMemCreate", Needs::init, [&]() -> Result {
    if (!known_properties(properties) || flags != 0 || size == 0 || !aligned(size)) {
      return kInvalidValue;
    }
    if (mode_is("wsl") && properties->handle_types != 0) return kNotSupported;
    const std::lock_guard guard(state().mutex);
    const auto limit =
        static_cast<std::uint64_t>(setting("SHMTENSOR_SIM_LIMIT", std::int64_t{1} << 30));
    if (state().allocated + size > limit) return kOutOfMemory;
    auto memory = Physical::create(size, properties->location.id, properties->handle_types);
    if (!memory) return kOutOfMemory;
    state().allocated += size;
    // Counted until its last handle and mapping are released, under the lock.
    const auto give_back = [memory, size](Physical*) { state().allocated -= size; };
    *out = add_handle(std::shared_ptr<Physical>(memory.get(), give_back));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemRelease(MemoryHandle handle) {
  return call("cuMemRelease", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().handles.find(handle);
    if (at == state().handles.end()) return kInvalidValue;
    if (--at->second.second == 0) state().handles.erase(at);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemAddressReserve(DevicePtr* out, std::size_t size, std::size_t alignment,
                                      DevicePtr, unsigned long long flags) {
  return call("cuMemAddressReserve", Needs::init, [&]() -> Result {
    if (size == 0 || !aligned(size) || !aligned(alignment) || flags != 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    *out = take_addresses(size);
    if (*out == 0) return kOutOfMemory;
    state().reservations[*out] = size;
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemAddressFree(DevicePtr start, std::size_t size) {
  return call("cuMemAddressFree", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().reservations.find(start);
    if (at == state().reservations.end() || at->second != size || overlaps(start, size)) {
      return kInvalidValue;
    }
    state().reservations.erase(at);
    give_addresses(start, size);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemMap(DevicePtr start, std::size_t size, std::size_t offset,
                           MemoryHandle handle, unsigned long long flags) {
  return call("cuMemMap", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().handles.find(handle);
    if (at == state().handles.end() || flags != 0 || offset != 0 || !aligned(start)) {
      return kInvalidValue;
    }
    const std::shared_ptr<Physical>& memory = at->second.first;
    if (size != memory->size() || !reserved(start, size) || overlaps(start, size)) {
      return kInvalidValue;
    }
    state().ranges[start] = {.size = size,
                             .kind = Kind::virtual_memory,
                             .memory = memory,
                             .id = new_id(),
                             .device = process_number(memory->header().device)};
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemUnmap(DevicePtr start, std::size_t size) {
  return call("cuMemUnmap", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    // Whole mappings only.
    DevicePtr end = start;
    while (end < start + size) {
      const auto at = state().ranges.find(end);
      if (at == state().ranges.end() || at->second.kind != Kind::virtual_memory) {
        return kInvalidValue;
      }
      end += at->second.size;
    }
    if (size == 0 || end != start + size) return kInvalidValue;
    state().ranges.erase(state().ranges.find(start), state().ranges.lower_bound(end));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemSetAccess(DevicePtr start, std::size_t size,
                                 const AccessDescription* descriptions, std::size_t count) {
  return call("cuMemSetAccess", Needs::init, [&]() -> Result {
    if (count == 0 || size == 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    for (DevicePtr at = start; at < start + size;) {
      const auto found = state().ranges.find(at);
      if (found == state().ranges.end() || found->second.kind != Kind::virtual_memory) {
        return kInvalidValue;
      }
      at += found->second.size;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const AccessDescription& one = descriptions[i];
      if (one.location.type != kLocationDevice || one.location.id < 0) return kInvalidValue;
      if (one.location.id >= device_count()) return kInvalidDevice;
      for (DevicePtr at = start; at < start + size;) {
        Range& range = state().ranges.at(at);
        if (one.location.id != range.device && setting("SHMTENSOR_SIM_P2P", 1) == 0) {
          return kPeerAccessUnsupported;
        }
        range.access[one.location.id] = one.flags;
        at += range.size;
      }
    }
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemExportToShareableHandle(void* out, MemoryHandle handle, int type,
                                               unsigned long long flags) {
  return call("cuMemExportToShareableHandle", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().handles.find(handle);
    if (at == state().handles.end() || flags != 0) return kInvalidValue;
    const Physical& memory = *at->second.first;
    if (type != kHandleDescriptor || (memory.header().handle_types & type) == 0) {
      return kInvalidValue;
    }
    if (memory.imported() && setting("SHMTENSOR_SIM_REEXPORT", 0) == 0) return kInvalidValue;
    const int descriptor = memory.open_descriptor();
    if (descriptor < 0) return kOperatingSystem;  // no descriptor is left
    *static_cast<int*>(out) = descriptor;
    return kSuccess;
  });
}

// The pointer argument contains the descriptor's number; the caller keeps the descriptor.
SIM_EXPORT Result cuMemImportFromShareableHandle(MemoryHandle* out, void* descriptor, int type) {
  return call("cuMemImportFromShareableHandle", Needs::init, [&]() -> Result {
    if (type != kHandleDescriptor) return kInvalidValue;
    auto memory = Physical::import(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
    if (!memory) return kInvalidValue;
    // "If the current process cannot support the memory"
    if (process_number(memory->header().device) < 0) return kNotSupported;
    const std::lock_guard guard(state().mutex);
    *out = add_handle(std::move(memory));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemRetainAllocationHandle(MemoryHandle* out, void* pointer) {
  return call("cuMemRetainAllocationHandle", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = find_range(reinterpret_cast<DevicePtr>(pointer));
    if (at == state().ranges.end() || at->second.kind != Kind::virtual_memory) {
      return kInvalidValue;
    }
    for (auto& [handle, entry] : state().handles) {
      if (entry.first->header().id != at->second.memory->header().id) continue;
      ++entry.second;
      *out = handle;
      return kSuccess;
    }
    *out = add_handle(at->second.memory);
    return kSuccess;
  });
}
