// Initialisation, devices, contexts, the names of errors.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

constexpr int kMostDevices = 8;

// "GPU n" has the UUID 53 49 4d 00 .. n, whatever its number in a process.
cuda::Uuid uuid_of(int physical) {
  cuda::Uuid uuid{};
  std::memcpy(uuid.bytes, "SIM", 3);
  uuid.bytes[15] = static_cast<unsigned char>(physical);
  return uuid;
}

// CUDA_VISIBLE_DEVICES chooses and orders; numbers only.
const std::vector<int>& visible() {
  static const auto* const all = new std::vector<int>([] {
    const int count = std::min(static_cast<int>(setting("SHMTENSOR_SIM_DEVICES", 2)), kMostDevices);
    std::vector<int> found;
    const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
    if (chosen == nullptr) {
      for (int i = 0; i < count; ++i) found.push_back(i);
      return found;
    }
    std::istringstream words(chosen);
    for (std::string word; std::getline(words, word, ',');) {
      const int number = word.empty() ? -1 : std::atoi(word.c_str());
      if (number < 0 || number >= count) break;
      found.push_back(number);
    }
    return found;
  }());
  return *all;
}

bool exists(int device) { return device >= 0 && device < device_count(); }

// "103=0,125=0"
std::optional<int> overridden(int attribute) {
  const char* text = std::getenv("SHMTENSOR_SIM_ATTRIBUTES");
  if (text == nullptr) return std::nullopt;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto equals = word.find('=');
    if (equals != std::string::npos && std::atoi(word.c_str()) == attribute) {
      return std::atoi(word.c_str() + equals + 1);
    }
  }
  return std::nullopt;
}

// The first version whose cuda.h has IPC_EVENT_SUPPORTED; older drivers do not know it.
constexpr int kFirstWithIpcAttribute = 11080;
int driver_version() { return static_cast<int>(setting("SHMTENSOR_SIM_VERSION", 13000)); }

struct Name {
  Result code;
  const char* name;
  const char* text;
};
constexpr Name kNames[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", "peer mapping resources exhausted"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Result named(Result code, const char** out, const char* Name::* member) {
  for (const Name& name : kNames) {
    if (name.code != code) continue;
    *out = name.*member;
    return 0;
  }
  *out = nullptr;
  return cuda::kInvalidValue;
}

Context* context_of(ContextHandle handle) { return reinterpret_cast<Context*>(handle); }
ContextHandle handle_of(Context* context) { return reinterpret_cast<ContextHandle>(context); }

}  // namespace

int device_count() { return static_cast<int>(visible().size()); }

int machine_number(int device) { return visible()[static_cast<std::size_t>(device)]; }

bool has_ipc() { return !mode_is("wsl") && overridden(cuda::kHasIpc).value_or(1) != 0; }

int process_number(int machine_device) {
  for (int i = 0; i < device_count(); ++i) {
    if (machine_number(i) == machine_device) return i;
  }
  return -1;
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimContext = shmtensor::sim::Context;

SIM_EXPORT Result cuInit(unsigned flags) {
  return call("cuInit", Needs::nothing, [&]() -> Result {
    if (flags != 0) return kInvalidValue;
    if (mode_is("stub")) return kStubLibrary;
    if (mode_is("mismatch")) return kDriverMismatch;
    if (mode_is("broken")) return kUnknown;
    if (mode_is("fabric")) return kSystemNotReady;
    if (mode_is("nodevice") || device_count() == 0) return kNoDevice;
    State& all = state();
    const std::lock_guard guard(all.mutex);
    if (all.pid.load() != 0) return kSuccess;
    all.contexts.resize(static_cast<std::size_t>(device_count()));
    for (int i = 0; i < device_count(); ++i) all.contexts[static_cast<std::size_t>(i)].device = i;
    // Small enough for a thread sanitizer, which reserves several times as much address space.
    constexpr std::size_t kAddresses = std::size_t{1} << 36;
    void* start =
        ::mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return kOutOfMemory;
    const auto first =
        (reinterpret_cast<DevicePtr>(start) + kGranularity - 1) & ~(kGranularity - 1);
    all.free_addresses[first] = kAddresses - kGranularity;
    std::atexit([] { state().ended.store(true); });
    all.pid.store(::getpid());
    return kSuccess;
  });
}

SIM_EXPORT Result cuDriverGetVersion(int* version) {
  *version = driver_version();
  return kSuccess;
}

SIM_EXPORT Result cuGetErrorName(Result code, const char** out) {
  return named(code, out, &Name::name);
}
SIM_EXPORT Result cuGetErrorString(Result code, const char** out) {
  return named(code, out, &Name::text);
}

SIM_EXPORT Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::init, [&]() -> Result {
    *count = device_count();
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceGet(DeviceNumber* device, int ordinal) {
  return call("cuDeviceGet", Needs::init, [&]() -> Result {
    if (!exists(ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceGetName(char* name, int size, DeviceNumber device) {
  return call("cuDeviceGetName", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    const char* const full = mode_is("mig") ? "Simulated GPU MIG 1g.5gb" : "Simulated GPU";
    std::strncpy(name, full, static_cast<std::size_t>(size));
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceGetAttribute(int* value, int attribute, DeviceNumber device) {
  return call("cuDeviceGetAttribute", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    if (const auto given = overridden(attribute); given && attribute != kHasIpc) {
      *value = *given;
      return kSuccess;
    }
    const bool wsl = mode_is("wsl");
    switch (attribute) {
      case kHasVirtualMemory:
      case kHasDescriptorHandles:
        *value = wsl ? 0 : 1;
        return kSuccess;
      case kHasIpc:
        if (driver_version() < kFirstWithIpcAttribute) return kInvalidValue;
        *value = has_ipc() ? 1 : 0;
        return kSuccess;
      default:
        *value = other_attribute(attribute, device);
        return kSuccess;
    }
  });
}

SIM_EXPORT Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceNumber device) {
  return call("cuDeviceGetUuid_v2", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    *uuid = uuid_of(visible()[static_cast<std::size_t>(device)]);
    if (mode_is("mig"))
      uuid->bytes[14] = static_cast<unsigned char>(setting("SHMTENSOR_SIM_MIG", 1));
    return kSuccess;
  });
}

SIM_EXPORT Result cuDeviceCanAccessPeer(int* can, DeviceNumber device, DeviceNumber peer) {
  return call("cuDeviceCanAccessPeer", Needs::init, [&]() -> Result {
    if (!exists(device) || !exists(peer)) return kInvalidDevice;
    *can = setting("SHMTENSOR_SIM_P2P", 1) != 0 && device != peer ? 1 : 0;
    return kSuccess;
  });
}

SIM_EXPORT Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceNumber device) {
  return call("cuDevicePrimaryCtxRetain", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    const std::lock_guard guard(state().mutex);
    SimContext& primary = state().contexts[static_cast<std::size_t>(device)];
    ++primary.retained;
    *context = handle_of(&primary);
    return kSuccess;
  });
}

SIM_EXPORT Result cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  return call("cuDevicePrimaryCtxRelease_v2", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    const std::lock_guard guard(state().mutex);
    SimContext& primary = state().contexts[static_cast<std::size_t>(device)];
    if (primary.retained == 0) return kInvalidContext;
    --primary.retained;
    return kSuccess;
  });
}

SIM_EXPORT Result cuDevicePrimaryCtxGetState(DeviceNumber device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", Needs::init, [&]() -> Result {
    if (!exists(device)) return kInvalidDevice;
    const std::lock_guard guard(state().mutex);
    *flags = 0;
    *active = state().contexts[static_cast<std::size_t>(device)].retained > 0 ? 1 : 0;
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetDevice(DeviceNumber* device) {
  return call("cuCtxGetDevice", Needs::context, [&]() -> Result {
    *device = current()->device;
    return kSuccess;
  });
}

/// Another context on the device, as cuCtxCreate makes it: the one-context rule of IPC needs it.
SIM_EXPORT ContextHandle sim_second_context(int device) {
  const std::lock_guard guard(state().mutex);
  state().created.push_back(std::make_unique<SimContext>(SimContext{device, 1}));
  return handle_of(state().created.back().get());
}

SIM_EXPORT Result cuCtxPushCurrent_v2(ContextHandle context) {
  return call("cuCtxPushCurrent_v2", Needs::init, [&]() -> Result {
    if (context == nullptr) return kInvalidContext;
    context_stack().push_back(context_of(context));
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxPopCurrent_v2(ContextHandle* context) {
  return call("cuCtxPopCurrent_v2", Needs::init, [&]() -> Result {
    if (context_stack().empty()) return kInvalidContext;
    if (context != nullptr) *context = handle_of(context_stack().back());
    context_stack().pop_back();
    return kSuccess;
  });
}

SIM_EXPORT Result cuCtxGetCurrent(ContextHandle* context) {
  return call("cuCtxGetCurrent", Needs::init, [&]() -> Result {
    *context = handle_of(current());
    return kSuccess;
  });
}

// "Blocks until the current context has completed all preceding requested tasks" (driver API,
// context management): not those of another context of the device.
SIM_EXPORT Result cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::context, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    if (const Result refused = refuse_captured(*current())) return refused;
    finish_context(lock, current());
    return kSuccess;
  });
}
