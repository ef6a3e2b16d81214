// Pinned host memory. With unified addressing, its address is the device's, too.
#include <sys/mman.h>

#include "clients/declarations.hpp"
#include "sim.hpp"

namespace shmtensor::sim {

std::map<std::uintptr_t, HostMemory>& host_memory() {
  static auto* const all = new std::map<std::uintptr_t, HostMemory>;
  return *all;
}

const std::pair<const std::uintptr_t, HostMemory>* find_host_memory(std::uint64_t pointer) {
  const auto at = host_memory().upper_bound(pointer);
  if (at == host_memory().begin()) return nullptr;
  const auto& found = *std::prev(at);
  return pointer < found.first + found.second.size ? &found : nullptr;
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

constexpr unsigned kAllocationFlags = 0x7;  // portable, mapped, write-combined
constexpr unsigned kRegistrationFlags = 0xf;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

Result allocate(void** out, std::size_t size, unsigned flags) {
  if (out == nullptr || size == 0 || (flags & ~kAllocationFlags) != 0) return kInvalidValue;
  void* start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard guard(state().mutex);
  host_memory()[number(start)] = {size, flags, false, current()->device, new_id()};
  *out = start;
  return kSuccess;
}

}  // namespace

SIM_EXPORT Result cuMemHostAlloc(void** out, std::size_t size, unsigned flags) {
  return call("cuMemHostAlloc", Needs::context, [&] { return allocate(out, size, flags); });
}

SIM_EXPORT Result cuMemAllocHost_v2(void** out, std::size_t size) {
  return call("cuMemAllocHost_v2", Needs::context, [&] { return allocate(out, size, 0); });
}

SIM_EXPORT Result cuMemFreeHost(void* pointer) {
  return call("cuMemFreeHost", Needs::context, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    const auto at = host_memory().find(number(pointer));
    if (at == host_memory().end() || at->second.registered) return kInvalidValue;
    finish_device(lock, at->second.device);  // assumed, as cuMemFree does
    ::munmap(pointer, at->second.size);
    host_memory().erase(number(pointer));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags) {
  return call("cuMemHostRegister_v2", Needs::context, [&]() -> Result {
    if (pointer == nullptr || size == 0 || (flags & ~kRegistrationFlags) != 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    for (const std::uintptr_t end : {number(pointer), number(pointer) + size - 1}) {
      if (find_host_memory(end) != nullptr) return kHostMemoryRegistered;
    }
    host_memory()[number(pointer)] = {size, flags, true, current()->device, new_id()};
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemHostUnregister(void* pointer) {
  return call("cuMemHostUnregister", Needs::init, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    const auto at = host_memory().find(number(pointer));
    if (at == host_memory().end() && find_host_memory(number(pointer)) != nullptr) {
      return kInvalidValue;
    }
    if (at == host_memory().end() || !at->second.registered) return kHostMemoryNotRegistered;
    finish_device(lock, at->second.device);
    host_memory().erase(number(pointer));
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemHostGetDevicePointer_v2(DevicePtr* out, void* pointer, unsigned flags) {
  return call("cuMemHostGetDevicePointer_v2", Needs::context, [&]() -> Result {
    if (flags != 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    if (find_host_memory(number(pointer)) == nullptr) return kInvalidValue;
    *out = number(pointer);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemHostGetFlags(unsigned* flags, void* pointer) {
  return call("cuMemHostGetFlags", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto* const found = find_host_memory(number(pointer));
    if (found == nullptr) return kInvalidValue;
    *flags = found->second.flags;
    return kSuccess;
  });
}
