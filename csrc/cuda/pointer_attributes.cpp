#include "cuda/pointer_attributes.hpp"

#include "base/align.hpp"
#include "cuda/contexts.hpp"

namespace shmtensor::cuda {
namespace {

// Some drivers report that memory of cudaMalloc cannot be exported although it can. Must not be
// called for a device without IPC: the call may then succeed and set the memory to zero.
bool exports_all_the_same(const Driver& driver, DevicePtr base) {
  IpcMemoryHandle ignored{};
  return driver.cuIpcGetMemHandle(&ignored, base) == kSuccess;
}

const char* why_not_exportable(const Gpu& gpu, std::uint64_t handle_types) {
  if ((handle_types & kHandleFabric) != 0) {
    return "virtual memory that can be exported by FABRIC handles only (torch's expandable "
           "segments on machines with IMEX channels; PYTORCH_CUDA_ALLOC_CONF="
           "expandable_segments:False avoids them)";
  }
  return gpu.has_ipc() ? "of a kind that cuIpcGetMemHandle does not export"
                       : "on a device without IPC (WSL2; attribute IPC_EVENT_SUPPORTED)";
}

}  // namespace

int device_of(DevicePtr pointer) {
  const Driver& driver = Driver::get();
  unsigned type = 0;
  int device = -1;
  DevicePtr range = 0;
  int names[] = {kPointerMemoryType, kPointerDevice, kPointerRangeStart};
  void* values[] = {&type, &device, &range};
  driver.check(driver.cuPointerGetAttributes(3, names, values, pointer),
               "get the memory type of an array");
  if (type == kMemoryTypeDevice && device >= 0) return device;
  throw CudaError(kInvalidValue,
                  range != 0 ? "no memory is mapped at the address, which is reserved; it was "
                               "unmapped (a library's sleep mode), or has not been mapped yet"
                             : "the driver does not know the address as GPU memory");
}

// The other attributes are queried in the memory's context.
PointerAttributes query_pointer(DevicePtr pointer, std::uint64_t size) {
  const Driver& driver = Driver::get();
  const int device = device_of(pointer);
  const Gpu& gpu = Gpu::get(device);
  PointerAttributes facts{.device = device, .context = context_of(gpu, pointer)};
  const Current current(gpu, facts.context);
  unsigned managed = 0;
  int capable = 0;
  std::uint64_t handle_types = 0;
  void* pool = nullptr;
  DevicePtr range = 0;  // one reservation, which may have several chunks
  std::uint64_t range_size = 0;
  int names[] = {kPointerIsManaged, kPointerIpcCapable, kPointerBufferId, kPointerHandleTypes,
                 kPointerPool,      kPointerRangeStart, kPointerRangeSize};
  void* values[] = {
      &managed, &capable,   &facts.buffer_id, &handle_types, static_cast<void*>(&pool),
      &range,   &range_size};
  driver.check(driver.cuPointerGetAttributes(7, names, values, pointer),
               "get the memory type of an array");
  if (managed != 0) {
    facts.kind = "managed memory, which no process can export";
    return facts;
  }
  if (pool != nullptr) {
    facts.kind = handle_types == 0 ? "from a stream-ordered pool (cudaMallocAsync) that was "
                                     "created without a handle type for export"
                                   : "from a stream-ordered pool for export, of which the "
                                     "importers would have to free the memory before its owner";
    return facts;
  }
  std::size_t base_size = 0;
  driver.check(driver.cuMemGetAddressRange_v2(&facts.base, &base_size, pointer),
               "find the allocation of an array");
  facts.base_size = base_size;
  const bool whole =
      gpu.has_ipc() &&
      (capable != 0 || (handle_types == 0 && exports_all_the_same(driver, facts.base)));
  facts.in_chunks = !whole && (handle_types & kHandleDescriptor) != 0 && gpu.has_virtual_memory();
  facts.exportable = whole || facts.in_chunks;
  if (!facts.exportable) facts.kind = why_not_exportable(gpu, handle_types);
  const bool inside = facts.in_chunks ? fits(pointer - range, size, range_size)
                                      : fits(pointer - facts.base, size, facts.base_size);
  if (facts.exportable && !inside) {
    throw CudaError(kInvalidValue, "the array extends past the end of its allocation");
  }
  return facts;
}

}  // namespace shmtensor::cuda
