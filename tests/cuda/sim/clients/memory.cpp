// Memory, beyond what shmtensor asks for.
#include "clients/declarations.hpp"
#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

constexpr std::size_t kPitch = 512;
constexpr int kSyncMemoryOperations = 6;

}  // namespace

// `element` is 4, 8 or 16 bytes.
SIM_EXPORT Result cuMemAllocPitch_v2(DevicePtr* out, std::size_t* pitch, std::size_t width,
                                     std::size_t height, unsigned element) {
  if (element != 4 && element != 8 && element != 16) return kInvalidValue;
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return cuMemAlloc_v2(out, *pitch * height);
}

// As for several attributes, but an address that the driver does not know is an error.
SIM_EXPORT Result cuPointerGetAttribute(void* value, int name, DevicePtr pointer) {
  unsigned type = 0;
  int names[] = {kPointerMemoryType, name};
  void* values[] = {&type, value};
  if (const Result code = cuPointerGetAttributes(1, names, values, pointer)) return code;
  if (type == 0) return kInvalidValue;
  return cuPointerGetAttributes(1, names + 1, values + 1, pointer);
}

// Synchronous operations are what the simulator's are for memory of the device.
SIM_EXPORT Result cuPointerSetAttribute(const void*, int name, DevicePtr pointer) {
  return call("cuPointerSetAttribute", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const bool known = find_range(pointer) != state().ranges.end();
    return known && name == kSyncMemoryOperations ? kSuccess : kInvalidValue;
  });
}

SIM_EXPORT Result cuMemGetAccess(unsigned long long* flags, const MemoryLocation* where,
                                 DevicePtr pointer) {
  return call("cuMemGetAccess", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = find_range(pointer);
    if (at == state().ranges.end() || at->second.kind != Kind::virtual_memory) return kInvalidValue;
    if (where->type != kLocationDevice) return kInvalidValue;
    *flags = static_cast<unsigned long long>(access_of(at->second, where->id));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemGetAllocationPropertiesFromHandle(AllocationProperties* out,
                                                         MemoryHandle handle) {
  return call("cuMemGetAllocationPropertiesFromHandle", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().handles.find(handle);
    if (at == state().handles.end()) return kInvalidValue;
    const FileHeader& header = at->second.first->header();
    *out = {kAllocationPinned,
            header.handle_types,
            {kLocationDevice, process_number(header.device)},
            nullptr,
            {}};
    return kSuccess;
  });
}
