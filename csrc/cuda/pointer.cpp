#include "cuda/pointer.hpp"

#include "base/align.hpp"

namespace shmtensor::cuda {
namespace {

// Drivers are known that say of cudaMalloc's memory that it cannot be exported.
bool exports_all_the_same(const Driver& driver, DevicePtr base) {
  IpcMemoryHandle ignored{};
  return driver.cuIpcGetMemHandle(&ignored, base) == kSuccess;
}

}  // namespace

int device_of(DevicePtr pointer) {
  const Driver& driver = Driver::get();
  unsigned type = 0;
  int device = -1;
  int names[] = {kPointerMemoryType, kPointerDevice};
  void* values[] = {&type, &device};
  driver.check(driver.cuPointerGetAttributes(2, names, values, pointer),
               "ask what memory an array lies in");
  if (type != kMemoryTypeDevice || device < 0) {
    throw CudaError(kInvalidValue,
                    "an address that should be GPU memory is not known to the driver");
  }
  return device;
}

// The rest is asked with a context of its device.
PointerFacts facts_of(DevicePtr pointer, std::uint64_t size) {
  const Driver& driver = Driver::get();
  const int device = device_of(pointer);
  const Gpu& gpu = Gpu::get(device);
  const Current current(gpu);
  PointerFacts facts{.device = device};
  unsigned managed = 0;
  int capable = 0;
  std::uint64_t handle_types = 0;
  void* pool = nullptr;
  DevicePtr range = 0;  // one owner's, of which there may be several pieces
  std::uint64_t range_size = 0;
  int names[] = {kPointerIsManaged, kPointerIpcCapable, kPointerBufferId, kPointerHandleTypes,
                 kPointerPool,      kPointerRangeStart, kPointerRangeSize};
  void* values[] = {
      &managed, &capable,   &facts.buffer_id, &handle_types, static_cast<void*>(&pool),
      &range,   &range_size};
  driver.check(driver.cuPointerGetAttributes(7, names, values, pointer),
               "ask what memory an array lies in");
  if (managed != 0) {
    facts.kind = "managed memory, which no process can export";
    return facts;
  }
  if (pool != nullptr) {
    facts.kind = "from a stream-ordered pool (cudaMallocAsync), made without the right to export";
    return facts;
  }
  std::size_t base_size = 0;
  driver.check(driver.cuMemGetAddressRange_v2(&facts.base, &base_size, pointer),
               "find the allocation that an array lies in");
  facts.base_size = base_size;
  const bool whole =
      driver.has_ipc() &&
      (capable != 0 || (handle_types == 0 && exports_all_the_same(driver, facts.base)));
  facts.in_pieces = !whole && (handle_types & kHandleDescriptor) != 0 && gpu.has_virtual_memory();
  facts.exportable = whole || facts.in_pieces;
  if (!facts.exportable) facts.kind = "of a kind that cuIpcGetMemHandle does not export";
  const bool inside = facts.in_pieces ? fits(pointer - range, size, range_size)
                                      : fits(pointer - facts.base, size, facts.base_size);
  if (facts.exportable && !inside) {
    throw CudaError(kInvalidValue, "the array reaches over the end of its allocation");
  }
  return facts;
}

}  // namespace shmtensor::cuda
