#include "cuda/memory.hpp"

#include <fcntl.h>

#include "base/align.hpp"
#include "cuda/peer_access.hpp"

namespace shmtensor::cuda {
namespace {

std::string in_mib(std::uint64_t size) { return std::to_string(size / kMiB) + " MiB"; }

AllocationProperties properties_for(const Gpu& gpu) {
  AllocationProperties properties{};
  properties.type = kAllocationPinned;
  properties.handle_types = kHandleDescriptor;
  properties.location = {kLocationDevice, gpu.number()};
  return properties;
}

}  // namespace

std::uint64_t PhysicalMemory::granularity(const Gpu& gpu) {
  const AllocationProperties properties = properties_for(gpu);
  std::size_t size = 0;
  gpu.driver().check(
      gpu.driver().cuMemGetAllocationGranularity(&size, &properties, kGranularityMinimum),
      "get the page size" + on(gpu));
  return size;
}

PhysicalMemory PhysicalMemory::create(const Gpu& gpu, std::uint64_t size) {
  const RelaxedCapture relaxed(gpu.driver());
  const AllocationProperties properties = properties_for(gpu);
  const std::string what = "allocate " + in_mib(size) + on(gpu);
  MemoryHandle handle = 0;
  gpu.driver().check(gpu.driver().cuMemCreate(&handle, size, &properties, 0), what);
  return {handle, size};
}

PhysicalMemory PhysicalMemory::import(const Gpu& gpu, const Fd& descriptor, std::uint64_t size) {
  const RelaxedCapture relaxed(gpu.driver());
  const std::string what = "import " + in_mib(size) + " from another process" + on(gpu);
  MemoryHandle handle = 0;
  const Driver& driver = gpu.driver();
  driver.check(driver.cuMemImportFromShareableHandle(
                   &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get())),
                   kHandleDescriptor),
               what);
  return {handle, size};
}

PhysicalMemory PhysicalMemory::at(const Gpu& gpu, DevicePtr start, std::uint64_t size) {
  const RelaxedCapture relaxed(gpu.driver());
  const std::string what = "find the memory at an address" + on(gpu);
  MemoryHandle handle = 0;
  gpu.driver().check(
      gpu.driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(start)), what);
  return {handle, size};
}

Fd PhysicalMemory::export_descriptor(const Gpu& gpu) const {
  const RelaxedCapture relaxed(gpu.driver());
  const std::string what = "export " + in_mib(size_) + on(gpu);
  int number = -1;
  gpu.driver().check(
      gpu.driver().cuMemExportToShareableHandle(&number, handle_, kHandleDescriptor, 0), what);
  Fd descriptor(number);
  // An H200's driver sets it; that is not documented.
  if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) throw_os("protect a descriptor from exec");
  return descriptor;
}

void PhysicalMemory::reset() noexcept {
  const MemoryHandle handle = std::exchange(handle_, 0);
  if (handle == 0) return;
  const Driver* driver = Driver::usable();
  if (driver == nullptr) return;
  const RelaxedCapture relaxed(*driver);
  driver->report_failure(driver->cuMemRelease(handle), "free memory");
}

MappedMemory MappedMemory::map(const Gpu& gpu, const PhysicalMemory* pieces, std::size_t count,
                               Access access) {
  const Driver& driver = gpu.driver();
  const RelaxedCapture relaxed(driver);
  MappedMemory made;
  for (std::size_t i = 0; i < count; ++i) made.size_ += pieces[i].size();
  const std::string reserve = "reserve " + in_mib(made.size_) + " of address space" + on(gpu);
  DevicePtr start = 0;
  driver.check(driver.cuMemAddressReserve(&start, made.size_, 0, 0, 0), reserve);
  made.start_ = start;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string map = "map " + in_mib(pieces[i].size()) + on(gpu);
    driver.check(driver.cuMemMap(start + made.mapped_, pieces[i].size(), 0, pieces[i].handle(), 0),
                 map);
    made.mapped_ += pieces[i].size();
  }
  const int flags = access == Access::read_only ? kAccessRead : kAccessReadWrite;
  const AccessDescription own{{kLocationDevice, gpu.number()}, flags};
  driver.check(driver.cuMemSetAccess(start, made.size_, &own, 1),
               "get access to " + in_mib(made.size_) + on(gpu));
  list_mapping(start, made.size_, gpu.number(), flags);
  return made;
}

void MappedMemory::reset() noexcept {
  const DevicePtr start = std::exchange(start_, 0);
  if (start == 0) return;
  const Driver* driver = Driver::usable();
  if (driver == nullptr) return;
  unlist_mapping(start);
  const RelaxedCapture relaxed(*driver);
  if (mapped_ != 0) driver->report_failure(driver->cuMemUnmap(start, mapped_), "unmap memory");
  mapped_ = 0;
  driver->report_failure(driver->cuMemAddressFree(start, size_), "free address space");
}

}  // namespace shmtensor::cuda
