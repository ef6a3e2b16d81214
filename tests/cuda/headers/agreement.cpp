// Compiles if csrc/cuda/types.hpp agrees with NVIDIA's cuda.h: each size, offset, constant and
// function. tests/cuda/test_headers.py compiles it, and checks that nothing is left out.
#include <cuda.h>

#include <string_view>

#include "cuda/types.hpp"
#include "same_abi.hpp"

namespace ours = shmtensor::cuda;

// --- types ---

#define SAME_SIZE(a, b) \
  static_assert(sizeof(ours::a) == sizeof(b) && alignof(ours::a) == alignof(b))
#define SAME_STRUCTURE(a, b) \
  SAME_SIZE(a, b);           \
  template <>                \
  inline constexpr bool kPair<ours::a, b> = true
#define SAME_MEMBER(a, b, member, theirs)                          \
  static_assert(offsetof(ours::a, member) == offsetof(b, theirs)); \
  static_assert(sizeof(ours::a{}.member) == sizeof(b{}.theirs))
#define SAME_HANDLE(tag, b) \
  template <>               \
  inline constexpr bool kPair<ours::tag, b> = true

SAME_SIZE(Result, CUresult);
SAME_SIZE(DeviceNumber, CUdevice);
SAME_SIZE(DevicePtr, CUdeviceptr);
SAME_SIZE(MemoryHandle, CUmemGenericAllocationHandle);
SAME_HANDLE(ContextTag, CUctx_st);
SAME_HANDLE(StreamTag, CUstream_st);
SAME_HANDLE(EventTag, CUevent_st);

SAME_STRUCTURE(Uuid, CUuuid);
SAME_MEMBER(Uuid, CUuuid, bytes, bytes);

SAME_STRUCTURE(MemoryLocation, CUmemLocation);
SAME_MEMBER(MemoryLocation, CUmemLocation, type, type);
SAME_MEMBER(MemoryLocation, CUmemLocation, id, id);

SAME_STRUCTURE(AllocationProperties, CUmemAllocationProp);
SAME_MEMBER(AllocationProperties, CUmemAllocationProp, type, type);
SAME_MEMBER(AllocationProperties, CUmemAllocationProp, handle_types, requestedHandleTypes);
SAME_MEMBER(AllocationProperties, CUmemAllocationProp, location, location);
SAME_MEMBER(AllocationProperties, CUmemAllocationProp, win32, win32HandleMetaData);
SAME_MEMBER(AllocationProperties, CUmemAllocationProp, flags, allocFlags);

SAME_STRUCTURE(AccessDescription, CUmemAccessDesc);
SAME_MEMBER(AccessDescription, CUmemAccessDesc, location, location);
SAME_MEMBER(AccessDescription, CUmemAccessDesc, flags, flags);

SAME_STRUCTURE(Copy2D, CUDA_MEMCPY2D);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.x, srcXInBytes);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.y, srcY);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.type, srcMemoryType);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.host, srcHost);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.device, srcDevice);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.array, srcArray);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, from.pitch, srcPitch);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.x, dstXInBytes);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.y, dstY);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.type, dstMemoryType);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.host, dstHost);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.device, dstDevice);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.array, dstArray);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, to.pitch, dstPitch);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, width, WidthInBytes);
SAME_MEMBER(Copy2D, CUDA_MEMCPY2D, height, Height);

SAME_STRUCTURE(IpcMemoryHandle, CUipcMemHandle);
SAME_MEMBER(IpcMemoryHandle, CUipcMemHandle, bytes, reserved);
SAME_STRUCTURE(IpcEventHandle, CUipcEventHandle);
SAME_MEMBER(IpcEventHandle, CUipcEventHandle, bytes, reserved);

// --- constants ---

#define SAME_VALUE(a, b) static_assert(static_cast<long long>(ours::a) == static_cast<long long>(b))

SAME_VALUE(kSuccess, CUDA_SUCCESS);
SAME_VALUE(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(kMapFailed, CUDA_ERROR_MAP_FAILED);
SAME_VALUE(kAlreadyMapped, CUDA_ERROR_ALREADY_MAPPED);
SAME_VALUE(kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME_VALUE(kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(kNotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(kContextDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(kAssert, CUDA_ERROR_ASSERT);
SAME_VALUE(kTooManyPeers, CUDA_ERROR_TOO_MANY_PEERS);
SAME_VALUE(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(kDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(kCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
SAME_VALUE(kCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_VALUE(kUnknown, CUDA_ERROR_UNKNOWN);

SAME_VALUE(kIsIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME_VALUE(kComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME_VALUE(kHasVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(kHasDescriptorHandles, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(kHasIpc, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
SAME_VALUE(kIsMpsClient, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);

SAME_VALUE(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_VALUE(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(kPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_VALUE(kPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(kPointerDevice, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(kPointerIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME_VALUE(kPointerRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_VALUE(kPointerRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(kPointerIsMapped, CU_POINTER_ATTRIBUTE_MAPPED);
SAME_VALUE(kPointerHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME_VALUE(kPointerPool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);

SAME_VALUE(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
SAME_VALUE(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);
SAME_VALUE(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(kAccessRead, CU_MEM_ACCESS_FLAGS_PROT_READ);
SAME_VALUE(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(kHandleDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(kHandleFabric, CU_MEM_HANDLE_TYPE_FABRIC);
SAME_VALUE(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(kLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kEventBlocking, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(kEventNoTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(kEventInterprocess, CU_EVENT_INTERPROCESS);
SAME_VALUE(kRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);

// A cast of a number to a pointer is not a constant, so the program compares these when it runs.
int main() {
  return ours::legacy_stream() == reinterpret_cast<ours::StreamHandle>(CU_STREAM_LEGACY) &&
                 ours::per_thread_stream() ==
                     reinterpret_cast<ours::StreamHandle>(CU_STREAM_PER_THREAD)
             ? 0
             : 1;
}

// --- functions ---

// cuda.h defines macros from plain names to the current versions. So a name that has a newer
// version, or needs a suffix, is replaced here, and one that is too old is not declared.
#define TEXT_OF(name) #name
#define SAME_NAME(name) static_assert(std::string_view(TEXT_OF(name)) == kName)
namespace shmtensor::cuda {
#define SAME_FUNCTION(name, signature)                                    \
  namespace check_##name {                                                \
    inline constexpr std::string_view kName = #name;                      \
    SAME_NAME(name);                                                      \
    static_assert(kSameFunction<Result(*) signature, decltype(&::name)>); \
  }
SHMTENSOR_CUDA_REQUIRED(SAME_FUNCTION)
SHMTENSOR_CUDA_VIRTUAL_MEMORY(SAME_FUNCTION)
SHMTENSOR_CUDA_IPC(SAME_FUNCTION)
SHMTENSOR_CUDA_PINNING(SAME_FUNCTION)
SHMTENSOR_CUDA_OPTIONAL(SAME_FUNCTION)
}  // namespace shmtensor::cuda
