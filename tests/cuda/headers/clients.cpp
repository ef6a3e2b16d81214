// Compiles if what the simulator adds for its clients agrees with NVIDIA's headers, too.
#include <cudaTypedefs.h>

#include "agreement.cpp"
#include "clients/attributes.hpp"
#include "clients/functions.hpp"

SAME_HANDLE(PoolTag, CUmemPoolHandle_st);
SAME_HANDLE(ContextParameters, CUctxCreateParams_st);
SAME_HANDLE(GraphTag, CUgraph_st);
SAME_HANDLE(GreenContextTag, CUgreenCtx_st);

SAME_STRUCTURE(PoolProperties, CUmemPoolProps);
SAME_MEMBER(PoolProperties, CUmemPoolProps, allocation_type, allocType);
SAME_MEMBER(PoolProperties, CUmemPoolProps, handle_types, handleTypes);
SAME_MEMBER(PoolProperties, CUmemPoolProps, location, location);
SAME_MEMBER(PoolProperties, CUmemPoolProps, win32, win32SecurityAttributes);
SAME_MEMBER(PoolProperties, CUmemPoolProps, most, maxSize);
SAME_MEMBER(PoolProperties, CUmemPoolProps, usage, usage);
// CUDA 13 uses a byte of what CUDA 12 reserves after it.
SAME_STRUCTURE(PoolPointer, CUmemPoolPtrExportData);
SAME_MEMBER(PoolPointer, CUmemPoolPtrExportData, bytes, reserved);

SAME_VALUE(kNotFound, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(kHostMemoryRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME_VALUE(kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME_VALUE(kPeerAccessEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME_VALUE(kPeerAccessNotEnabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
SAME_VALUE(kLookupFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(kLookupUnknown, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME_VALUE(kLookupTooOld, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
SAME_VALUE(kPointerDeviceAddress, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME_VALUE(kPointerHostAddress, CU_POINTER_ATTRIBUTE_HOST_POINTER);
SAME_VALUE(kPoolFollowEvents, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_VALUE(kPoolInternalDependencies, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME_VALUE(kPoolReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(kPoolReserved, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME_VALUE(kPoolReservedHigh, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
SAME_VALUE(kPoolUsed, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME_VALUE(kPoolUsedHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);

#define SAME_ATTRIBUTE(number, name, value) static_assert(number == CU_DEVICE_ATTRIBUTE_##name);
SIM_ATTRIBUTES(SAME_ATTRIBUTE)

// The types of functions by version, which programs give to cuGetProcAddress.
namespace shmtensor::cuda {
#define SAME_FORM(plain, version, name, signature) \
  static_assert(kSameFunction<Result(*) signature, PFN_##plain##_v##version>);
#define SAME_OWN_FORM(plain, version, name) \
  static_assert(std::is_same_v<decltype(&::name), PFN_##plain##_v##version>);
SIM_CLIENT_FUNCTIONS(SAME_FORM)
SIM_OWN_VERSIONS(SAME_OWN_FORM)
#if CUDA_VERSION >= 13000
SIM_CLIENT_CUDA13(SAME_FORM)
#endif
}  // namespace shmtensor::cuda
