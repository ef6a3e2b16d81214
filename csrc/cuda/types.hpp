// The types, constants and signatures of the driver that this library uses, as given in its
// documentation. So a build needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shmtensor::cuda {

using Result = int;
using DeviceNumber = int;
using DevicePtr = unsigned long long;
using MemoryHandle = unsigned long long;
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;

struct Uuid {
  unsigned char bytes[16];
  bool operator==(const Uuid&) const = default;
};

struct MemoryLocation {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32;
  unsigned char flags[8];
};
static_assert(sizeof(AllocationProperties) == 32);
static_assert(offsetof(AllocationProperties, location) == 8);

struct AccessDescription {
  MemoryLocation location;
  int flags;
};
static_assert(sizeof(AccessDescription) == 12);

/// `height` rows of `width` bytes, with their distances on both sides.
struct Copy2D {
  struct Side {
    std::size_t x;
    std::size_t y;
    unsigned type;  ///< selects the valid address
    const void* host;
    DevicePtr device;
    void* array;
    std::size_t pitch;
  };
  Side from;
  Side to;
  std::size_t width;
  std::size_t height;
};
static_assert(sizeof(Copy2D) == 128);
static_assert(offsetof(Copy2D, to) == 56);

/// Passed by value to the functions that open them.
struct IpcMemoryHandle {
  unsigned char bytes[64];
  bool operator==(const IpcMemoryHandle&) const = default;
};
struct IpcEventHandle {
  unsigned char bytes[64];
  bool operator==(const IpcEventHandle&) const = default;
};

// Results that the callers distinguish.
inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kDeviceUnavailable = 46;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kMapFailed = 205;
inline constexpr Result kAlreadyMapped = 208;
inline constexpr Result kPeerAccessUnsupported = 217;
inline constexpr Result kOperatingSystem = 304;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchTimeout = 702;
inline constexpr Result kContextDestroyed = 709;
inline constexpr Result kAssert = 710;
inline constexpr Result kTooManyPeers = 711;
inline constexpr Result kHardwareStackError = 714;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kNotPermitted = 800;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kSystemNotReady = 802;
inline constexpr Result kDriverMismatch = 803;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureInvalidated = 901;
inline constexpr Result kCaptureImplicit = 906;
inline constexpr Result kCapturedEvent = 907;
inline constexpr Result kCaptureWrongThread = 908;
inline constexpr Result kUnknown = 999;

// Attributes of a device.
inline constexpr int kIsIntegrated = 18;
inline constexpr int kComputeMode = 20;
inline constexpr int kHasVirtualMemory = 102;
inline constexpr int kHasDescriptorHandles = 103;
inline constexpr int kHasIpc = 125;
inline constexpr int kIsMpsClient = 133;

// Attributes of a pointer.
inline constexpr int kPointerContext = 1;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerBufferId = 7;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDevice = 9;
inline constexpr int kPointerIpcCapable = 10;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeSize = 12;
inline constexpr int kPointerIsMapped = 13;
inline constexpr int kPointerHandleTypes = 14;
inline constexpr int kPointerPool = 17;

inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kHandleDescriptor = 1;
inline constexpr int kHandleFabric = 8;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kLazyPeerAccess = 1;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlocking = 1;
inline constexpr unsigned kEventNoTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kRegisterPortable = 1;

/// The address of device memory; the pointer must not be dereferenced on the host.
inline DevicePtr address_of(const void* memory) noexcept {
  return reinterpret_cast<DevicePtr>(memory);
}

/// A stream as other libraries pass it.
inline StreamHandle to_stream(std::uint64_t address) noexcept {
  return reinterpret_cast<StreamHandle>(address);
}

/// The two streams that exist without being created.
inline StreamHandle legacy_stream() noexcept { return reinterpret_cast<StreamHandle>(1); }
inline StreamHandle per_thread_stream() noexcept { return reinterpret_cast<StreamHandle>(2); }

// The functions of the driver, by their exported names: RESULT(name, signature). CUDA requires
// those of the first group; the others are optional features.
#define SHMTENSOR_CUDA_REQUIRED(X)                                             \
  X(cuInit, (unsigned))                                                        \
  X(cuDriverGetVersion, (int*))                                                \
  X(cuGetErrorName, (Result, const char**))                                    \
  X(cuGetErrorString, (Result, const char**))                                  \
  X(cuDeviceGetCount, (int*))                                                  \
  X(cuDeviceGet, (DeviceNumber*, int))                                         \
  X(cuDeviceGetName, (char*, int, DeviceNumber))                               \
  X(cuDeviceGetAttribute, (int*, int, DeviceNumber))                           \
  X(cuDeviceGetUuid_v2, (Uuid*, DeviceNumber))                                 \
  X(cuDevicePrimaryCtxRetain, (ContextHandle*, DeviceNumber))                  \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceNumber))                              \
  X(cuCtxPushCurrent_v2, (ContextHandle))                                      \
  X(cuCtxPopCurrent_v2, (ContextHandle*))                                      \
  X(cuCtxGetCurrent, (ContextHandle*))                                         \
  X(cuCtxGetDevice, (DeviceNumber*))                                           \
  X(cuCtxSynchronize, ())                                                      \
  X(cuMemAlloc_v2, (DevicePtr*, std::size_t))                                  \
  X(cuMemFree_v2, (DevicePtr))                                                 \
  X(cuMemGetAddressRange_v2, (DevicePtr*, std::size_t*, DevicePtr))            \
  X(cuPointerGetAttributes, (unsigned, int*, void**, DevicePtr))               \
  X(cuMemcpyHtoDAsync_v2, (DevicePtr, const void*, std::size_t, StreamHandle)) \
  X(cuMemcpyDtoHAsync_v2, (void*, DevicePtr, std::size_t, StreamHandle))       \
  X(cuMemcpyDtoDAsync_v2, (DevicePtr, DevicePtr, std::size_t, StreamHandle))   \
  X(cuMemcpy2DAsync_v2, (const Copy2D*, StreamHandle))                         \
  X(cuMemsetD8Async, (DevicePtr, unsigned char, std::size_t, StreamHandle))    \
  X(cuStreamCreate, (StreamHandle*, unsigned))                                 \
  X(cuStreamDestroy_v2, (StreamHandle))                                        \
  X(cuStreamSynchronize, (StreamHandle))                                       \
  X(cuStreamQuery, (StreamHandle))                                             \
  X(cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                  \
  X(cuEventCreate, (EventHandle*, unsigned))                                   \
  X(cuEventRecord, (EventHandle, StreamHandle))                                \
  X(cuEventQuery, (EventHandle))                                               \
  X(cuEventSynchronize, (EventHandle))                                         \
  X(cuEventDestroy_v2, (EventHandle))

#define SHMTENSOR_CUDA_VIRTUAL_MEMORY(X)                                                        \
  X(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int))            \
  X(cuMemCreate, (MemoryHandle*, std::size_t, const AllocationProperties*, unsigned long long)) \
  X(cuMemRelease, (MemoryHandle))                                                               \
  X(cuMemAddressReserve, (DevicePtr*, std::size_t, std::size_t, DevicePtr, unsigned long long)) \
  X(cuMemAddressFree, (DevicePtr, std::size_t))                                                 \
  X(cuMemMap, (DevicePtr, std::size_t, std::size_t, MemoryHandle, unsigned long long))          \
  X(cuMemUnmap, (DevicePtr, std::size_t))                                                       \
  X(cuMemSetAccess, (DevicePtr, std::size_t, const AccessDescription*, std::size_t))            \
  X(cuMemExportToShareableHandle, (void*, MemoryHandle, int, unsigned long long))               \
  X(cuMemImportFromShareableHandle, (MemoryHandle*, void*, int))                                \
  X(cuMemRetainAllocationHandle, (MemoryHandle*, void*))

#define SHMTENSOR_CUDA_IPC(X)                                       \
  X(cuIpcGetMemHandle, (IpcMemoryHandle*, DevicePtr))               \
  X(cuIpcOpenMemHandle_v2, (DevicePtr*, IpcMemoryHandle, unsigned)) \
  X(cuIpcCloseMemHandle, (DevicePtr))                               \
  X(cuIpcGetEventHandle, (IpcEventHandle*, EventHandle))            \
  X(cuIpcOpenEventHandle, (EventHandle*, IpcEventHandle))

#define SHMTENSOR_CUDA_PINNING(X)                         \
  X(cuMemHostRegister_v2, (void*, std::size_t, unsigned)) \
  X(cuMemHostUnregister, (void*))                         \
  X(cuCtxRecordEvent, (ContextHandle, EventHandle))

#define SHMTENSOR_CUDA_OPTIONAL(X)                               \
  X(cuDeviceCanAccessPeer, (int*, DeviceNumber, DeviceNumber))   \
  X(cuDevicePrimaryCtxGetState, (DeviceNumber, unsigned*, int*)) \
  X(cuMemGetInfo_v2, (std::size_t*, std::size_t*))               \
  X(cuStreamIsCapturing, (StreamHandle, int*))                   \
  X(cuThreadExchangeStreamCaptureMode, (int*))

}  // namespace shmtensor::cuda
