// Streams and events, beyond what shmtensor asks for.
#include <algorithm>

#include "clients/declarations.hpp"
#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimStream = shmtensor::sim::Stream;

namespace {

constexpr unsigned kEventRecordExternal = 1;

template <typename Body>
Result with_stream(const char* name, StreamHandle handle, Body&& body) {
  return call(name, Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto stream = find_stream(handle);
    return stream ? body(stream) : kInvalidHandle;
  });
}

ContextHandle context_of(const SimStream& stream) {
  return reinterpret_cast<ContextHandle>(const_cast<shmtensor::sim::Context*>(stream.context));
}

Result elapsed(const char* name, float* milliseconds, EventHandle start, EventHandle end) {
  for (const EventHandle event : {start, end}) {
    if (const Result code = cuEventQuery(event)) return code;
  }
  return call(name, Needs::init, [&]() -> Result {
    *milliseconds = 0.5F;  // any: nothing is measured here
    return kSuccess;
  });
}

}  // namespace

// "If priority is outside the numerical range, it will automatically be clamped".
SIM_EXPORT Result cuStreamCreateWithPriority(StreamHandle* out, unsigned flags, int priority) {
  if (const Result code = cuStreamCreate(out, flags)) return code;
  const std::lock_guard guard(state().mutex);
  find_stream(*out)->priority = std::clamp(priority, kGreatestPriority, 0);
  return kSuccess;
}

SIM_EXPORT Result cuStreamGetPriority(StreamHandle handle, int* priority) {
  return with_stream("cuStreamGetPriority", handle, [&](const auto& stream) -> Result {
    *priority = stream->priority;
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamGetFlags(StreamHandle handle, unsigned* flags) {
  return with_stream("cuStreamGetFlags", handle, [&](const auto& stream) -> Result {
    *flags = stream->blocking ? 0 : kStreamNonBlocking;
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamGetCtx(StreamHandle handle, ContextHandle* context) {
  return with_stream("cuStreamGetCtx", handle, [&](const auto& stream) -> Result {
    *context = context_of(*stream);
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamGetCtx_v2(StreamHandle handle, ContextHandle* context,
                                    GreenContextHandle* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

SIM_EXPORT Result cuStreamGetDevice(StreamHandle handle, DeviceNumber* device) {
  return with_stream("cuStreamGetDevice", handle, [&](const auto& stream) -> Result {
    *device = reinterpret_cast<shmtensor::sim::Context*>(context_of(*stream))->device;
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamGetId(StreamHandle handle, unsigned long long* id) {
  return with_stream("cuStreamGetId", handle, [&](const auto& stream) -> Result {
    *id = reinterpret_cast<std::uintptr_t>(stream.get());
    return kSuccess;
  });
}

// "The host function must not make any CUDA API calls": not checked.
SIM_EXPORT Result cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* data) {
  return with_stream("cuLaunchHostFunc", handle, [&](const auto& stream) -> Result {
    return submit(stream, {[] { return true; }, [function, data] { function(data); }});
  });
}

SIM_EXPORT Result cuStreamAddCallback(StreamHandle handle, StreamCallback function, void* data,
                                      unsigned flags) {
  return with_stream("cuStreamAddCallback", handle, [&](const auto& stream) -> Result {
    if (flags != 0) return kInvalidValue;
    return submit(stream, {[] { return true; }, [=] { function(handle, kSuccess, data); }});
  });
}

SIM_EXPORT Result cuEventRecordWithFlags(EventHandle event, StreamHandle stream, unsigned flags) {
  if ((flags & ~kEventRecordExternal) != 0) return kInvalidValue;
  return cuEventRecord(event, stream);
}

SIM_EXPORT Result cuEventElapsedTime(float* milliseconds, EventHandle start, EventHandle end) {
  return elapsed("cuEventElapsedTime", milliseconds, start, end);
}

SIM_EXPORT Result cuEventElapsedTime_v2(float* milliseconds, EventHandle start, EventHandle end) {
  return elapsed("cuEventElapsedTime_v2", milliseconds, start, end);
}
