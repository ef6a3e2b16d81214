// Errors, versions, devices.
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>

#include <utility>

#include "runtime.hpp"

using namespace cudart;  // NOLINT: what follows is the library's surface

// What a library asks for and is not here: its build defines each such name as this function.
RUNTIME(cudart_without, ) { return noted(cudaErrorNotSupported); }
// The same for the names by which compiled programs register their kernels, which never run.
extern "C" void* cudart_registered() {
  static void* nothing = nullptr;
  return &nothing;
}

RUNTIME(cudaGetLastError, ) { return std::exchange(t_last, cudaSuccess); }
RUNTIME(cudaPeekAtLastError, ) { return t_last; }
extern "C" const char* cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  call(DRIVER(cuGetErrorName), static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unrecognized error code";
}
extern "C" const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  call(DRIVER(cuGetErrorString), static_cast<CUresult>(error), &text);
  return text != nullptr ? text : "unrecognized error code";
}

RUNTIME(cudaDriverGetVersion, int* version) { return call(DRIVER(cuDriverGetVersion), version); }
RUNTIME(cudaRuntimeGetVersion, int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
RUNTIME(cudaGetDeviceCount, int* count) { return after_init(DRIVER(cuDeviceGetCount), count); }
RUNTIME(cudaGetDevice, int* device) {
  CUcontext context = nullptr;
  if (const cudaError_t error = after_init(DRIVER(cuCtxGetCurrent), &context)) return error;
  if (context != nullptr) return call(DRIVER(cuCtxGetDevice), device);
  *device = t_device;
  return cudaSuccess;
}
RUNTIME(cudaSetDevice, int device) {
  CUcontext context = nullptr;
  if (const cudaError_t error = primary_context(&context, device)) return error;
  t_device = device;
  return call(DRIVER(cuCtxSetCurrent), context);
}
RUNTIME(cudaDeviceGetAttribute, int* value, cudaDeviceAttr name, int device) {
  return after_init(DRIVER(cuDeviceGetAttribute), value, static_cast<CUdevice_attribute>(name),
                    device);
}
RUNTIME(cudaGetDeviceProperties, cudaDeviceProp* out, int device) {
  *out = {};
  for (const auto& [name, value] : {
           std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
           {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
           {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &out->warpSize},
           {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->maxThreadsPerBlock},
           {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->multiProcessorCount},
           {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &out->unifiedAddressing},
           {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &out->memoryPoolsSupported},
       }) {
    if (const cudaError_t error = after_init(DRIVER(cuDeviceGetAttribute), value, name, device))
      return error;
  }
  if (const cudaError_t error = call(DRIVER(cuDeviceTotalMem), &out->totalGlobalMem, device))
    return error;
  return call(DRIVER(cuDeviceGetName), out->name, static_cast<int>(sizeof out->name), device);
}
RUNTIME(cudaDeviceGetPCIBusId, char* text, int size, int device) {
  return after_init(DRIVER(cuDeviceGetPCIBusId), text, size, device);
}
RUNTIME(cudaDeviceGetByPCIBusId, int* device, const char* text) {
  return after_init(DRIVER(cuDeviceGetByPCIBusId), device, text);
}
RUNTIME(cudaDeviceCanAccessPeer, int* can, int device, int peer) {
  return after_init(DRIVER(cuDeviceCanAccessPeer), can, device, peer);
}
RUNTIME(cudaDeviceEnablePeerAccess, int peer, unsigned flags) {
  CUcontext context = nullptr;
  if (const cudaError_t error = primary_context(&context, peer)) return error;
  return in_context(DRIVER(cuCtxEnablePeerAccess), context, flags);
}
RUNTIME(cudaDeviceDisablePeerAccess, int peer) {
  CUcontext context = nullptr;
  if (const cudaError_t error = primary_context(&context, peer)) return error;
  return in_context(DRIVER(cuCtxDisablePeerAccess), context);
}
RUNTIME(cudaDeviceSynchronize, ) { return in_context(DRIVER(cuCtxSynchronize)); }
RUNTIME(cudaProfilerStart, ) { return in_context(DRIVER(cuProfilerStart)); }
RUNTIME(cudaProfilerStop, ) { return in_context(DRIVER(cuProfilerStop)); }
#if CUDART_VERSION >= 12050
// torch looks up all that it may call. What the simulated driver lacks fails when it is called.
RUNTIME(cudaGetDriverEntryPointByVersion, const char* name, void** out, unsigned version,
        unsigned long long flags, cudaDriverEntryPointQueryResult* result) {
  auto* const found = reinterpret_cast<CUdriverProcAddressQueryResult*>(result);
  after_init(DRIVER(cuGetProcAddress), name, out, static_cast<int>(version), flags, found);
  if (*out == nullptr) *out = reinterpret_cast<void*>(&cudart_without);
  *result = cudaDriverEntryPointSuccess;
  t_last = cudaSuccess;
  return cudaSuccess;
}
#endif
