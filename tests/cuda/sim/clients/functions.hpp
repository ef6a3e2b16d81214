// The functions that other programs of the driver use, beside those of csrc/cuda/types.hpp, and the
// versions by which they ask for each. tests/cuda/test_headers.py compares them with NVIDIA's
// headers.
#pragma once

#include "clients/types.hpp"

// The versions of shmtensor's own functions.
#define SIM_OWN_VERSIONS(X)                                                      \
  X(cuInit, 2000, cuInit)                                                        \
  X(cuDriverGetVersion, 2020, cuDriverGetVersion)                                \
  X(cuGetErrorName, 6000, cuGetErrorName)                                        \
  X(cuGetErrorString, 6000, cuGetErrorString)                                    \
  X(cuDeviceGetCount, 2000, cuDeviceGetCount)                                    \
  X(cuDeviceGet, 2000, cuDeviceGet)                                              \
  X(cuDeviceGetName, 2000, cuDeviceGetName)                                      \
  X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                            \
  X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                                  \
  X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)              \
  X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)                                 \
  X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                                   \
  X(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                                      \
  X(cuCtxGetDevice, 2000, cuCtxGetDevice)                                        \
  X(cuStreamIsCapturing, 10000, cuStreamIsCapturing)                             \
  X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode) \
  X(cuCtxSynchronize, 2000, cuCtxSynchronize)                                    \
  X(cuCtxRecordEvent, 12050, cuCtxRecordEvent)                                   \
  X(cuMemHostRegister, 6050, cuMemHostRegister_v2)                               \
  X(cuMemHostUnregister, 4000, cuMemHostUnregister)                              \
  X(cuMemAlloc, 3020, cuMemAlloc_v2)                                             \
  X(cuMemFree, 3020, cuMemFree_v2)                                               \
  X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)                         \
  X(cuPointerGetAttributes, 7000, cuPointerGetAttributes)                        \
  X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                               \
  X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2)                               \
  X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2)                               \
  X(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2)                                   \
  X(cuMemsetD8Async, 3020, cuMemsetD8Async)                                      \
  X(cuStreamCreate, 2000, cuStreamCreate)                                        \
  X(cuStreamDestroy, 4000, cuStreamDestroy_v2)                                   \
  X(cuStreamSynchronize, 2000, cuStreamSynchronize)                              \
  X(cuStreamQuery, 2000, cuStreamQuery)                                          \
  X(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                  \
  X(cuEventCreate, 2000, cuEventCreate)                                          \
  X(cuEventRecord, 2000, cuEventRecord)                                          \
  X(cuEventQuery, 2000, cuEventQuery)                                            \
  X(cuEventSynchronize, 2000, cuEventSynchronize)                                \
  X(cuEventDestroy, 4000, cuEventDestroy_v2)                                     \
  X(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity)         \
  X(cuMemCreate, 10020, cuMemCreate)                                             \
  X(cuMemRelease, 10020, cuMemRelease)                                           \
  X(cuMemAddressReserve, 10020, cuMemAddressReserve)                             \
  X(cuMemAddressFree, 10020, cuMemAddressFree)                                   \
  X(cuMemMap, 10020, cuMemMap)                                                   \
  X(cuMemUnmap, 10020, cuMemUnmap)                                               \
  X(cuMemSetAccess, 10020, cuMemSetAccess)                                       \
  X(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle)           \
  X(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle)       \
  X(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle)             \
  X(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle)                                  \
  X(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2)                            \
  X(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle)                              \
  X(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle)                              \
  X(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle)                            \
  X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer)                          \
  X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)                \
  X(cuMemGetInfo, 3020, cuMemGetInfo_v2)

// The functions by plain name, the version of CUDA that brought this form, exported name and
// signature.
#define SIM_CLIENT_DEVICES(X)                                                               \
  X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2, (std::size_t*, DeviceNumber))              \
  X(cuDeviceGetUuid, 9020, cuDeviceGetUuid, (Uuid*, DeviceNumber))                          \
  X(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability, (int*, int*, DeviceNumber)) \
  X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId, (char*, int, DeviceNumber))             \
  X(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId, (DeviceNumber*, const char*))       \
  X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2, (DeviceNumber, unsigned))

// Of cudaProfiler.h, which is in another package.
#define SIM_CLIENT_PROFILER(X)                  \
  X(cuProfilerStart, 4000, cuProfilerStart, ()) \
  X(cuProfilerStop, 4000, cuProfilerStop, ())

#define SIM_CLIENT_CONTEXTS(X)                                                     \
  X(cuCtxCreate, 3020, cuCtxCreate_v2, (ContextHandle*, unsigned, DeviceNumber))   \
  X(cuCtxCreate, 12050, cuCtxCreate_v4,                                            \
    (ContextHandle*, ContextParameters*, unsigned, DeviceNumber))                  \
  X(cuCtxDestroy, 4000, cuCtxDestroy_v2, (ContextHandle))                          \
  X(cuCtxDetach, 2000, cuCtxDetach, (ContextHandle))                               \
  X(cuCtxSetCurrent, 4000, cuCtxSetCurrent, (ContextHandle))                       \
  X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion, (ContextHandle, unsigned*))      \
  X(cuCtxGetFlags, 7000, cuCtxGetFlags, (unsigned*))                               \
  X(cuCtxGetId, 12000, cuCtxGetId, (ContextHandle, unsigned long long*))           \
  X(cuCtxGetLimit, 3010, cuCtxGetLimit, (std::size_t*, int))                       \
  X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange, (int*, int*))  \
  X(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess, (ContextHandle, unsigned)) \
  X(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess, (ContextHandle))

#define SIM_CLIENT_HOST_MEMORY(X)                                                                 \
  X(cuMemHostAlloc, 2020, cuMemHostAlloc, (void**, std::size_t, unsigned))                        \
  X(cuMemAllocHost, 3020, cuMemAllocHost_v2, (void**, std::size_t))                               \
  X(cuMemFreeHost, 2000, cuMemFreeHost, (void*))                                                  \
  X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2, (DevicePtr*, void*, unsigned)) \
  X(cuMemHostGetFlags, 2030, cuMemHostGetFlags, (unsigned*, void*))

#define SIM_CLIENT_COPIES(X)                                                               \
  X(cuMemcpy, 4000, cuMemcpy, (DevicePtr, DevicePtr, std::size_t))                         \
  X(cuMemcpyAsync, 4000, cuMemcpyAsync, (DevicePtr, DevicePtr, std::size_t, StreamHandle)) \
  X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, (DevicePtr, const void*, std::size_t))            \
  X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, (void*, DevicePtr, std::size_t))                  \
  X(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2, (DevicePtr, DevicePtr, std::size_t))              \
  X(cuMemcpyPeer, 4000, cuMemcpyPeer,                                                      \
    (DevicePtr, ContextHandle, DevicePtr, ContextHandle, std::size_t))                     \
  X(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync,                                            \
    (DevicePtr, ContextHandle, DevicePtr, ContextHandle, std::size_t, StreamHandle))       \
  X(cuMemcpy2D, 3020, cuMemcpy2D_v2, (const Copy2D*))                                      \
  X(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, (const Copy2D*))                    \
  X(cuMemsetD8, 3020, cuMemsetD8_v2, (DevicePtr, unsigned char, std::size_t))              \
  X(cuMemsetD16, 3020, cuMemsetD16_v2, (DevicePtr, unsigned short, std::size_t))           \
  X(cuMemsetD32, 3020, cuMemsetD32_v2, (DevicePtr, unsigned, std::size_t))                 \
  X(cuMemsetD16Async, 3020, cuMemsetD16Async,                                              \
    (DevicePtr, unsigned short, std::size_t, StreamHandle))                                \
  X(cuMemsetD32Async, 3020, cuMemsetD32Async, (DevicePtr, unsigned, std::size_t, StreamHandle))

#define SIM_CLIENT_MEMORY(X)                                                               \
  X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2,                                             \
    (DevicePtr*, std::size_t*, std::size_t, std::size_t, unsigned))                        \
  X(cuPointerGetAttribute, 4000, cuPointerGetAttribute, (void*, int, DevicePtr))           \
  X(cuPointerSetAttribute, 6000, cuPointerSetAttribute, (const void*, int, DevicePtr))     \
  X(cuMemGetAccess, 10020, cuMemGetAccess,                                                 \
    (unsigned long long*, const MemoryLocation*, DevicePtr))                               \
  X(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle, \
    (AllocationProperties*, MemoryHandle))

#define SIM_CLIENT_POOLS(X)                                                                   \
  X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool, (PoolHandle*, DeviceNumber)) \
  X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool, (PoolHandle*, DeviceNumber))               \
  X(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool, (DeviceNumber, PoolHandle))                \
  X(cuMemPoolCreate, 11020, cuMemPoolCreate, (PoolHandle*, const PoolProperties*))            \
  X(cuMemPoolDestroy, 11020, cuMemPoolDestroy, (PoolHandle))                                  \
  X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo, (PoolHandle, std::size_t))                       \
  X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute, (PoolHandle, int, void*))            \
  X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute, (PoolHandle, int, void*))            \
  X(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess,                                            \
    (PoolHandle, const AccessDescription*, std::size_t))                                      \
  X(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess, (int*, PoolHandle, MemoryLocation*))       \
  X(cuMemAllocAsync, 11020, cuMemAllocAsync, (DevicePtr*, std::size_t, StreamHandle))         \
  X(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync,                                  \
    (DevicePtr*, std::size_t, PoolHandle, StreamHandle))                                      \
  X(cuMemFreeAsync, 11020, cuMemFreeAsync, (DevicePtr, StreamHandle))                         \
  X(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle,                \
    (void*, PoolHandle, int, unsigned long long))                                             \
  X(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle,            \
    (PoolHandle*, void*, int, unsigned long long))                                            \
  X(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer, (PoolPointer*, DevicePtr))         \
  X(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer, (DevicePtr*, PoolHandle, PoolPointer*))

#define SIM_CLIENT_STREAMS(X)                                                                      \
  X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority, (StreamHandle*, unsigned, int))  \
  X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, (StreamHandle, int))                     \
  X(cuStreamEndCapture, 10000, cuStreamEndCapture, (StreamHandle, GraphHandle*))                   \
  X(cuStreamGetPriority, 5050, cuStreamGetPriority, (StreamHandle, int*))                          \
  X(cuStreamGetFlags, 5050, cuStreamGetFlags, (StreamHandle, unsigned*))                           \
  X(cuStreamGetCtx, 9020, cuStreamGetCtx, (StreamHandle, ContextHandle*))                          \
  X(cuStreamAddCallback, 5000, cuStreamAddCallback,                                                \
    (StreamHandle, StreamCallback, void*, unsigned))                                               \
  X(cuLaunchHostFunc, 10000, cuLaunchHostFunc, (StreamHandle, HostFunction, void*))                \
  X(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, (EventHandle, StreamHandle, unsigned))  \
  X(cuEventElapsedTime, 2000, cuEventElapsedTime, (float*, EventHandle, EventHandle))              \
  X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2, (float*, EventHandle, EventHandle))          \
  X(cuStreamGetCtx, 12050, cuStreamGetCtx_v2, (StreamHandle, ContextHandle*, GreenContextHandle*)) \
  X(cuStreamGetDevice, 12080, cuStreamGetDevice, (StreamHandle, DeviceNumber*))                    \
  X(cuStreamGetId, 12000, cuStreamGetId, (StreamHandle, unsigned long long*))

// Of CUDA 13.
#define SIM_CLIENT_CUDA13(X)                                                  \
  X(cuCtxGetDevice, 13000, cuCtxGetDevice_v2, (DeviceNumber*, ContextHandle)) \
  X(cuCtxSynchronize, 13000, cuCtxSynchronize_v2, (ContextHandle))

#define SIM_CLIENT_LOOKUP(X)                                                              \
  X(cuGetProcAddress, 11030, cuGetProcAddress, (const char*, void**, int, std::uint64_t)) \
  X(cuGetProcAddress, 12000, cuGetProcAddress_v2, (const char*, void**, int, std::uint64_t, int*))

#define SIM_CLIENT_FUNCTIONS(X) \
  SIM_CLIENT_LOOKUP(X)          \
  SIM_CLIENT_DEVICES(X)         \
  SIM_CLIENT_CONTEXTS(X)        \
  SIM_CLIENT_HOST_MEMORY(X)     \
  SIM_CLIENT_COPIES(X)          \
  SIM_CLIENT_MEMORY(X)          \
  SIM_CLIENT_POOLS(X)           \
  SIM_CLIENT_STREAMS(X)
