// Devices and contexts, beyond what shmtensor asks for.
#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include "clients/declarations.hpp"
#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimContext = shmtensor::sim::Context;

namespace {

constexpr unsigned kApiVersion = 3020;
constexpr std::size_t kMostDevices = 8;

SimContext* context_of(ContextHandle handle) { return reinterpret_cast<SimContext*>(handle); }
ContextHandle handle_of(SimContext* context) { return reinterpret_cast<ContextHandle>(context); }
bool exists(DeviceNumber device) { return device >= 0 && device < device_count(); }

// With the lock held.
bool is_primary(const SimContext* context) {
  for (const SimContext& primary : state().contexts) {
    if (&primary == context) return true;
  }
  return false;
}
bool is_context(const SimContext* context) {
  if (is_primary(context)) return true;
  for (const auto& created : state().created) {
    if (created.get() == context) return context->retained > 0;
  }
  return false;
}

std::set<std::pair<SimContext*, SimContext*>>& enabled_peers() {
  static auto* const all = new std::set<std::pair<SimContext*, SimContext*>>;
  return *all;
}

Result create(ContextHandle* out, unsigned flags, DeviceNumber device) {
  if (out == nullptr || (flags & 0x3) == 0x3) return kInvalidValue;
  if (!exists(device)) return kInvalidDevice;
  const std::lock_guard guard(state().mutex);
  state().created.push_back(std::make_unique<SimContext>(SimContext{device, 1}));
  context_stack().push_back(state().created.back().get());
  *out = handle_of(context_stack().back());
  return kSuccess;
}

}  // namespace

SIM_EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceNumber device) {
  return call("cuDeviceTotalMem_v2", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    *bytes = static_cast<std::size_t>(setting("SHMTENSOR_SIM_LIMIT", std::int64_t{1} << 30));
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceGetUuid(Uuid* uuid, DeviceNumber device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

SIM_EXPORT Result cuDeviceComputeCapability(int* major, int* minor, DeviceNumber device) {
  constexpr int kMajor = 75;
  if (const Result code = cuDeviceGetAttribute(major, kMajor, device)) return code;
  return cuDeviceGetAttribute(minor, kMajor + 1, device);
}

// "[domain]:[bus]:[device].[function]"
SIM_EXPORT Result cuDeviceGetPCIBusId(char* text, int size, DeviceNumber device) {
  return call("cuDeviceGetPCIBusId", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    const int length = std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0",
                                     machine_number(device) + 1);
    return length < size ? kSuccess : kInvalidValue;
  });
}

SIM_EXPORT Result cuDeviceGetByPCIBusId(DeviceNumber* device, const char* text) {
  return call("cuDeviceGetByPCIBusId", Needs::init, [&]() -> Result {
    unsigned domain = 0;
    unsigned bus = 0;
    if (std::sscanf(text, "%x:%x", &domain, &bus) != 2) return kInvalidValue;
    if (domain != 0 || bus == 0 || bus > kMostDevices) return kInvalidDevice;
    *device = process_number(static_cast<int>(bus) - 1);
    return *device >= 0 ? kSuccess : kInvalidDevice;
  });
}

SIM_EXPORT Result cuDevicePrimaryCtxSetFlags_v2(DeviceNumber device, unsigned) {
  return call("cuDevicePrimaryCtxSetFlags_v2", Needs::init,
              [&]() -> Result { return exists(device) ? kSuccess : kInvalidDevice; });
}

// "The context is created with a usage count of 1 and the caller must call cuCtxDestroy"; it is
// pushed.
SIM_EXPORT Result cuCtxCreate_v2(ContextHandle* out, unsigned flags, DeviceNumber device) {
  return call("cuCtxCreate_v2", Needs::init, [&] { return create(out, flags, device); });
}

SIM_EXPORT Result cuCtxCreate_v4(ContextHandle* out, ContextParameters* parameters, unsigned flags,
                                 DeviceNumber device) {
  return call("cuCtxCreate_v4", Needs::init, [&]() -> Result {
    return parameters == nullptr ? create(out, flags, device) : kNotSupported;
  });
}

// "Destroys and cleans up all resources associated with the context"; "if hCtx is current to the
// calling thread then hCtx will also be popped"; in other threads it stays current, and calls
// answer CUDA_ERROR_CONTEXT_IS_DESTROYED.
SIM_EXPORT Result cuCtxDestroy_v2(ContextHandle handle) {
  return call("cuCtxDestroy_v2", Needs::init, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    SimContext* const context = context_of(handle);
    if (context == nullptr || is_primary(context) || !is_context(context)) return kInvalidContext;
    finish_context(lock, context);
    context->retained = 0;
    std::vector<DevicePtr> freed;
    for (const auto& [start, range] : state().ranges) {
      if (range.kind == Kind::legacy && range.context == handle) freed.push_back(start);
    }
    for (const DevicePtr start : freed) release_range(start);
    if (current() == context) context_stack().pop_back();
    return kSuccess;
  });
}

// "Decrements the usage count of the context ctx, and destroys the context if the usage count goes
// to 0", as here, where cuCtxAttach is not available.
SIM_EXPORT Result cuCtxDetach(ContextHandle context) { return cuCtxDestroy_v2(context); }

SIM_EXPORT Result cuCtxGetDevice_v2(DeviceNumber* device, ContextHandle context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  return call("cuCtxGetDevice_v2", Needs::init, [&]() -> Result {
    *device = context_of(context)->device;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxSynchronize_v2(ContextHandle context) {
  if (context == nullptr) return cuCtxSynchronize();
  if (const Result code = cuCtxPushCurrent_v2(context)) return code;
  const Result code = cuCtxSynchronize();
  cuCtxPopCurrent_v2(nullptr);
  return code;
}

// "If there exists a CUDA context stack on the calling CPU thread, this will replace the top of
// that stack"; null removes it.
SIM_EXPORT Result cuCtxSetCurrent(ContextHandle handle) {
  return call("cuCtxSetCurrent", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    SimContext* const context = context_of(handle);
    if (context != nullptr && !is_context(context)) return kInvalidContext;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(context);
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetApiVersion(ContextHandle handle, unsigned* version) {
  return call("cuCtxGetApiVersion", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    if (handle != nullptr && !is_context(context_of(handle))) return kInvalidContext;
    *version = kApiVersion;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetFlags(unsigned* flags) {
  return call("cuCtxGetFlags", Needs::context, [&]() -> Result {
    *flags = 0;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetId(ContextHandle handle, unsigned long long* id) {
  return call("cuCtxGetId", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const SimContext* const context = handle != nullptr ? context_of(handle) : current();
    if (context == nullptr || !is_context(context)) return kInvalidContext;
    *id = reinterpret_cast<std::uintptr_t>(context);
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetLimit(std::size_t* value, int) {
  return call("cuCtxGetLimit", Needs::context, [&]() -> Result {
    *value = 1024;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return call("cuCtxGetStreamPriorityRange", Needs::context, [&]() -> Result {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxEnablePeerAccess(ContextHandle handle, unsigned flags) {
  return call("cuCtxEnablePeerAccess", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    SimContext* const peer = context_of(handle);
    if (flags != 0) return kInvalidValue;
    if (peer == nullptr || !is_context(peer) || peer == current()) return kInvalidContext;
    if (setting("SHMTENSOR_SIM_P2P", 1) == 0) return kPeerAccessUnsupported;
    return enabled_peers().emplace(current(), peer).second ? kSuccess : kPeerAccessEnabled;
  });
}

SIM_EXPORT Result cuCtxDisablePeerAccess(ContextHandle handle) {
  return call("cuCtxDisablePeerAccess", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const bool erased = enabled_peers().erase({current(), context_of(handle)}) != 0;
    return erased ? kSuccess : kPeerAccessNotEnabled;
  });
}

SIM_EXPORT Result cuProfilerStart() {
  return call("cuProfilerStart", Needs::context, []() -> Result { return kSuccess; });
}

SIM_EXPORT Result cuProfilerStop() {
  return call("cuProfilerStop", Needs::context, []() -> Result { return kSuccess; });
}
