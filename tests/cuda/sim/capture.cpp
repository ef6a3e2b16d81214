// Captures of streams into graphs: what they prohibit. The graph itself is not kept.
//
// The rules are those of the driver API, "Stream Management" (cuStreamBeginCapture,
// cuThreadExchangeStreamCaptureMode, cuStreamIsCapturing), and of the programming guide, "CUDA
// Graphs", "Prohibited and Unhandled Operations" and "Invalidation".
#include <algorithm>
#include <cstring>
#include <string_view>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;

thread_local int t_mode = kGlobal;

// The documentation names none of the "potentially unsafe API calls". Driver 580 refused the
// first ones; of the others it is assumed.
constexpr std::ptrdiff_t kSeen = 8;
constexpr std::string_view kUnsafe[] = {"cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "cuEventQuery",
                                        "cuEventSynchronize",
                                        "cuStreamQuery",
                                        "cuStreamSynchronize",
                                        "cuMemHostRegister_v2",
                                        "cuMemHostUnregister",
                                        "cuMemCreate",
                                        "cuMemRelease",
                                        "cuMemMap",
                                        "cuMemUnmap",
                                        "cuMemSetAccess",
                                        "cuMemAddressReserve",
                                        "cuMemAddressFree",
                                        "cuMemExportToShareableHandle",
                                        "cuMemImportFromShareableHandle",
                                        "cuMemRetainAllocationHandle",
                                        "cuIpcGetMemHandle",
                                        "cuIpcOpenMemHandle_v2",
                                        "cuIpcCloseMemHandle",
                                        "cuIpcGetEventHandle",
                                        "cuIpcOpenEventHandle",
                                        "cuEventCreate",
                                        "cuEventDestroy_v2",
                                        "cuStreamCreate",
                                        "cuStreamDestroy_v2"};

template <typename Condition>
bool invalidate(Condition&& conflicts) {
  bool any = false;
  for (const auto& [key, stream] : state().streams) {
    if (!stream->capture || !conflicts(*stream)) continue;
    stream->capture->broken = true;
    any = true;
  }
  return any;
}

// "If the local thread has an ongoing capture sequence that was not initiated with RELAXED, or if
// any other thread has a concurrent capture sequence initiated with GLOBAL, this thread is
// prohibited from potentially unsafe API calls"; THREAD_LOCAL: "capture sequences in other threads
// are ignored"; RELAXED: "not prohibited".
bool prohibits(const Capture& capture) {
  if (t_mode == kRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return capture.mode != kRelaxed;
  return t_mode == kGlobal && capture.mode == kGlobal;
}

}  // namespace

Result refuse_unsafe(const char* name) {
  if (state().captures.load() == 0) return 0;
  const bool seen = chosen("SHMTENSOR_SIM_UNSAFE_CALLS", "seen");
  const auto* const end = seen ? std::begin(kUnsafe) + kSeen : std::end(kUnsafe);
  if (std::find(std::begin(kUnsafe), end, name) == end) return 0;
  const std::lock_guard guard(state().mutex);
  const bool any = invalidate([](const Stream& stream) { return prohibits(*stream.capture); });
  return any ? cuda::kCaptureUnsupported : 0;
}

// "When any stream in the same context is being captured, and it was not created with
// cudaStreamNonBlocking, any attempted use of the legacy stream is invalid."
Result refuse_legacy(const Stream& legacy) {
  if (!legacy.legacy) return 0;
  const bool any = invalidate(
      [&](const Stream& stream) { return stream.blocking && stream.context == legacy.context; });
  return any ? cuda::kCaptureImplicit : 0;
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured".
Result refuse_captured(const Stream& refused) {
  const bool any = invalidate([&](const Stream& stream) { return &stream == &refused; });
  return any ? cuda::kCaptureUnsupported : refuse_legacy(refused);
}

// "It is also invalid to query the execution status of or synchronize a broader handle which
// encompasses an active stream capture, such as a device or context handle": in any mode of the
// thread.
Result refuse_captured(const Context& context) {
  const bool any = invalidate([&](const Stream& stream) { return stream.context == &context; });
  return any ? cuda::kCaptureUnsupported : 0;
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimCapture = shmtensor::sim::Capture;

SIM_EXPORT Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::init, [&]() -> Result {
    if (*mode < kGlobal || *mode > kRelaxed) return kInvalidValue;
    std::swap(*mode, t_mode);
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamBeginCapture_v2(StreamHandle handle, int mode) {
  return call("cuStreamBeginCapture_v2", Needs::context, [&]() -> Result {
    if (mode < kGlobal || mode > kRelaxed) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    if (stream->legacy) return kCaptureUnsupported;  // "may not be initiated" there
    if (stream->capture) return kInvalidValue;
    stream->capture = std::make_shared<SimCapture>(SimCapture{mode, std::this_thread::get_id()});
    ++state().captures;
    return kSuccess;
  });
}

/// Gives no graph.
SIM_EXPORT Result cuStreamEndCapture(StreamHandle handle, GraphHandle* graph) {
  return call("cuStreamEndCapture", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    if (!stream->capture) return kInvalidValue;
    const SimCapture capture = *stream->capture;
    // "must be called from the same thread" unless the mode is RELAXED
    if (capture.mode != kRelaxed && capture.thread != std::this_thread::get_id()) {
      return kCaptureWrongThread;
    }
    stream->capture.reset();
    --state().captures;
    *graph = nullptr;
    return capture.broken ? kCaptureInvalidated : kSuccess;
  });
}

// "If called on the legacy stream while a blocking stream on the same context is capturing, it will
// return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT [...] The blocking stream capture is not invalidated."
SIM_EXPORT Result cuStreamIsCapturing(StreamHandle handle, int* status) {
  return call("cuStreamIsCapturing", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto stream = find_stream(handle);
    if (!stream) return kInvalidHandle;
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    for (const auto& [key, other] : state().streams) {
      if (stream->legacy && other->capture && other->blocking && other->context == stream->context)
        return kCaptureImplicit;
    }
    return kSuccess;
  });
}
