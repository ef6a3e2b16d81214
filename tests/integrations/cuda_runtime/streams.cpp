// Streams and events.
#include "runtime.hpp"

using namespace cudart;  // NOLINT: what follows is the library's surface

FORWARD(cudaStreamCreate, (cudaStream_t * out), cuStreamCreate, out, 0)
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * out, unsigned flags), cuStreamCreate, out, flags)
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * out, unsigned flags, int priority),
        cuStreamCreateWithPriority, out, flags, priority)
FORWARD(cudaStreamGetFlags, (cudaStream_t stream, unsigned* flags), cuStreamGetFlags, stream, flags)
FORWARD(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest), cuCtxGetStreamPriorityRange,
        least, greatest)
FORWARD(cudaStreamGetPriority, (cudaStream_t stream, int* priority), cuStreamGetPriority, stream,
        priority)
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy, stream)
FORWARD(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize, stream)
FORWARD(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery, stream)
FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
        cuStreamWaitEvent, stream, event, flags)
FORWARD(cudaStreamAddCallback,
        (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
        cuStreamAddCallback, stream, reinterpret_cast<CUstreamCallback>(function), data, flags)
FORWARD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void* data),
        cuLaunchHostFunc, stream, function, data)
FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
        cuStreamBeginCapture, stream, static_cast<CUstreamCaptureMode>(mode))
FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), cuStreamEndCapture, stream,
        graph)
FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
        cuStreamIsCapturing, stream, reinterpret_cast<CUstreamCaptureStatus*>(status))
FORWARD(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
        cuThreadExchangeStreamCaptureMode, reinterpret_cast<CUstreamCaptureMode*>(mode))
#if CUDART_VERSION >= 13000
// The simulated driver keeps no graph, of which the others would be.
RUNTIME(cudaStreamGetCaptureInfo, cudaStream_t stream, cudaStreamCaptureStatus* status,
        unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**,
        std::size_t*) {
  return cudaStreamIsCapturing(stream, status);
}
#endif

FORWARD(cudaEventCreate, (cudaEvent_t * out), cuEventCreate, out, 0)
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * out, unsigned flags), cuEventCreate, out, flags)
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy, event)
FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord, event, stream)
FORWARD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
        cuEventRecordWithFlags, event, stream, flags)
FORWARD(cudaEventQuery, (cudaEvent_t event), cuEventQuery, event)
FORWARD(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize, event)
FORWARD(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
        cuEventElapsedTime, milliseconds, start, end)

FORWARD(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * out, cudaEvent_t event), cuIpcGetEventHandle,
        reinterpret_cast<CUipcEventHandle*>(out), event)
FORWARD(cudaIpcOpenEventHandle, (cudaEvent_t * out, cudaIpcEventHandle_t handle),
        cuIpcOpenEventHandle, out, as<CUipcEventHandle>(handle))
