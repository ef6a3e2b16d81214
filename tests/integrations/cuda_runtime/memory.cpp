// Memory, pools and copies.
#include <array>

#include "runtime.hpp"

using namespace cudart;  // NOLINT: what follows is the library's surface

RUNTIME(cudaMalloc, void** out, std::size_t size) {
  *out = nullptr;
  return size == 0 ? enter() : in_context(DRIVER(cuMemAlloc), at(out), size);
}
RUNTIME(cudaFree, void* pointer) {
  return pointer == nullptr ? enter() : in_context(DRIVER(cuMemFree), at(pointer));
}
RUNTIME(cudaFreeHost, void* pointer) {
  return pointer == nullptr ? enter() : in_context(DRIVER(cuMemFreeHost), pointer);
}
FORWARD(cudaHostAlloc, (void** out, std::size_t size, unsigned flags), cuMemHostAlloc, out, size,
        flags)
FORWARD(cudaHostRegister, (void* pointer, std::size_t size, unsigned flags), cuMemHostRegister,
        pointer, size, flags)
FORWARD(cudaHostUnregister, (void* pointer), cuMemHostUnregister, pointer)
FORWARD(cudaMemGetInfo, (std::size_t* free, std::size_t* total), cuMemGetInfo, free, total)

// Memory that the driver does not know is the program's own.
RUNTIME(cudaPointerGetAttributes, cudaPointerAttributes* out, const void* pointer) {
  if (const cudaError_t error = enter()) return error;
  unsigned type = 0;
  unsigned managed = 0;
  *out = {};
  out->device = cudaInvalidDeviceId;
  std::array names = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  std::array<void*, names.size()> values = {&type, &managed, &out->device, &out->devicePointer,
                                            &out->hostPointer};
  const cudaError_t error =
      call(DRIVER(cuPointerGetAttributes), static_cast<unsigned>(names.size()), names.data(),
           values.data(), at(pointer));
  out->type = managed != 0 ? cudaMemoryTypeManaged : static_cast<cudaMemoryType>(type);
  return error;
}

// --- pools ---

FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * out, int device), cuDeviceGetDefaultMemPool,
        out, device)
FORWARD(cudaDeviceGetMemPool, (cudaMemPool_t * out, int device), cuDeviceGetMemPool, out, device)
FORWARD(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), cuDeviceSetMemPool, device, pool)
FORWARD(cudaMemPoolCreate, (cudaMemPool_t * out, const cudaMemPoolProps* properties),
        cuMemPoolCreate, out, reinterpret_cast<const CUmemPoolProps*>(properties))
FORWARD(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy, pool)
FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t pool, std::size_t keep), cuMemPoolTrimTo, pool, keep)
FORWARD(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr name, void* value),
        cuMemPoolSetAttribute, pool, static_cast<CUmemPool_attribute>(name), value)
FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr name, void* value),
        cuMemPoolGetAttribute, pool, static_cast<CUmemPool_attribute>(name), value)
FORWARD(cudaMallocAsync, (void** out, std::size_t size, cudaStream_t stream), cuMemAllocAsync,
        at(out), size, stream)
FORWARD(cudaMallocFromPoolAsync,
        (void** out, std::size_t size, cudaMemPool_t pool, cudaStream_t stream),
        cuMemAllocFromPoolAsync, at(out), size, pool, stream)
FORWARD(cudaFreeAsync, (void* pointer, cudaStream_t stream), cuMemFreeAsync, at(pointer), stream)

// --- copies: by unified addressing, the pointers determine where both sides are ---

FORWARD(cudaMemcpy, (void* to, const void* from, std::size_t size, cudaMemcpyKind), cuMemcpy,
        at(to), at(from), size)
FORWARD(cudaMemcpyAsync,
        (void* to, const void* from, std::size_t size, cudaMemcpyKind, cudaStream_t stream),
        cuMemcpyAsync, at(to), at(from), size, stream)
FORWARD(cudaMemcpyPeer, (void* to, int, const void* from, int, std::size_t size), cuMemcpy, at(to),
        at(from), size)
FORWARD(cudaMemcpyPeerAsync,
        (void* to, int, const void* from, int, std::size_t size, cudaStream_t stream),
        cuMemcpyAsync, at(to), at(from), size, stream)
FORWARD(cudaMemset, (void* to, int value, std::size_t size), cuMemsetD8, at(to), value, size)
FORWARD(cudaMemsetAsync, (void* to, int value, std::size_t size, cudaStream_t stream),
        cuMemsetD8Async, at(to), value, size, stream)

// --- other processes ---

FORWARD(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * out, void* pointer), cuIpcGetMemHandle,
        reinterpret_cast<CUipcMemHandle*>(out), at(pointer))
FORWARD(cudaIpcOpenMemHandle, (void** out, cudaIpcMemHandle_t handle, unsigned flags),
        cuIpcOpenMemHandle, at(out), as<CUipcMemHandle>(handle), flags)
FORWARD(cudaIpcCloseMemHandle, (void* pointer), cuIpcCloseMemHandle, at(pointer))
