// Types, constants and functions that other programs of the driver use beside those of
// csrc/cuda/types.hpp. tests/cuda/test_headers.py compares them with cuda.h, too.
#pragma once

#include "cuda/types.hpp"

namespace shmtensor::cuda {

using PoolHandle = struct PoolTag*;
using GreenContextHandle = struct GreenContextTag*;
using GraphHandle = struct GraphTag*;
struct ContextParameters;

struct PoolProperties {
  int allocation_type;
  int handle_types;
  MemoryLocation location;
  void* win32;
  std::size_t most;  ///< bytes; 0: what the device has
  unsigned short usage;
  unsigned char reserved[54];
};

/// Names an allocation of an exported pool.
struct PoolPointer {
  unsigned char bytes[64];
};

inline constexpr Result kNotFound = 500;
inline constexpr Result kHostMemoryRegistered = 712;
inline constexpr Result kHostMemoryNotRegistered = 713;
inline constexpr Result kPeerAccessEnabled = 704;
inline constexpr Result kPeerAccessNotEnabled = 705;

inline constexpr int kLookupFound = 0;
inline constexpr int kLookupUnknown = 1;
inline constexpr int kLookupTooOld = 2;

inline constexpr int kPointerDeviceAddress = 3;
inline constexpr int kPointerHostAddress = 4;

inline constexpr int kPoolFollowEvents = 1;
inline constexpr int kPoolInternalDependencies = 3;
inline constexpr int kPoolReleaseThreshold = 4;
inline constexpr int kPoolReserved = 5;
inline constexpr int kPoolReservedHigh = 6;
inline constexpr int kPoolUsed = 7;
inline constexpr int kPoolUsedHigh = 8;

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(StreamHandle, Result, void*);

}  // namespace shmtensor::cuda
