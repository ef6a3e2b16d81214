#include "cuda/contexts.hpp"

#include "cuda/awaited_events.hpp"
#include "cuda/event.hpp"

namespace shmtensor::cuda {
namespace {

// The context of the device that has the memory, or null.
ContextHandle owner_of(const Gpu& gpu, DevicePtr memory) {
  ContextHandle context = nullptr;
  int device = -1;
  int names[] = {kPointerContext, kPointerDevice};
  void* values[] = {static_cast<void*>(&context), &device};
  const Result code = gpu.driver().cuPointerGetAttributes(2, names, values, memory);
  return code == kSuccess && device == gpu.number() ? context : nullptr;
}

// The calling thread's current context if it is one of the device, else null.
ContextHandle current_of(const Gpu& gpu) {
  const Driver& driver = gpu.driver();
  ContextHandle context = nullptr;
  DeviceNumber device = -1;
  if (driver.cuCtxGetCurrent(&context) != kSuccess || context == nullptr) return nullptr;
  return driver.cuCtxGetDevice(&device) == kSuccess && device == gpu.number() ? context : nullptr;
}

// Calls `visit` with the contexts that are not the primary one. The work of a destroyed context has
// ended.
template <typename Visit>
void for_each_other(const Gpu& gpu, DevicePtr memory, Visit&& visit) {
  const ContextHandle owner = context_of(gpu, memory);
  const ContextHandle here = current_of(gpu);
  for (const ContextHandle context : {owner, here == owner ? nullptr : here}) {
    if (context == nullptr || context == gpu.context()) continue;
    try {
      visit(context);
    } catch (const CudaError& error) {
      if (error.code() != kContextDestroyed && error.code() != kInvalidContext) throw;
    }
  }
}

}  // namespace

ContextHandle context_of(const Gpu& gpu, DevicePtr memory) {
  const ContextHandle owner = owner_of(gpu, memory);
  return owner != nullptr ? owner : gpu.context();
}

bool have_common_context(const Gpu& gpu, DevicePtr one, DevicePtr other) {
  const ContextHandle owners[] = {owner_of(gpu, one), owner_of(gpu, other)};
  return owners[0] == nullptr || owners[1] == nullptr || owners[0] == owners[1];
}

void synchronize_users(const Gpu& gpu, DevicePtr memory) {
  gpu.synchronize();
  for_each_other(gpu, memory, [&](ContextHandle context) { gpu.synchronize(context); });
}

void join_users(const Gpu& gpu, DevicePtr memory) {
  for_each_other(gpu, memory, [&](ContextHandle context) {
    order(gpu, context, legacy_stream(), legacy_stream());
  });
}

void wait_for_stream(const Gpu& gpu, DevicePtr memory, StreamHandle stream) {
  const std::string what = "wait for a stream" + on(gpu);
  const ContextHandle context = context_of(gpu, memory);
  gpu.refuse_capturing(context, stream, what);
  const Current current(gpu, context);
  if (any_awaited()) {  // the stream may wait for the default one
    Result code = kNotReady;
    poll_until(gpu, [&] {
      code = gpu.driver().cuStreamQuery(stream);
      return code != kNotReady;
    });
    return gpu.driver().check(code, what);
  }
  gpu.driver().check(gpu.driver().cuStreamSynchronize(stream), what);
}

void join_stream(const Gpu& gpu, DevicePtr memory, StreamHandle stream) {
  const ContextHandle context = context_of(gpu, memory);
  if (context == gpu.context() && stream == legacy_stream()) return;
  order(gpu, context, stream, legacy_stream());
}

}  // namespace shmtensor::cuda
