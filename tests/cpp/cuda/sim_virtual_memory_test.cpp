// The simulator's virtual memory: descriptors, mappings, lifetimes.
#include <fcntl.h>
#include <unistd.h>

#include "os/unix_socket.hpp"
#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::DevicePtr;
using cuda::MemoryHandle;

constexpr std::size_t kChunk = std::size_t{2} << 20;

class SimVirtualMemory : public SimTest {};

cuda::AllocationProperties shareable(int types = cuda::kHandleDescriptor) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kAllocationPinned;
  properties.handle_types = types;
  properties.location = {cuda::kLocationDevice, 0};
  return properties;
}

DevicePtr map(const cuda::Driver& driver, MemoryHandle handle, int access) {
  DevicePtr start = 0;
  EXPECT_EQ(driver.cuMemAddressReserve(&start, kChunk, 0, 0, 0), 0);
  EXPECT_EQ(driver.cuMemMap(start, kChunk, 0, handle, 0), 0);
  const cuda::AccessDescription description{{cuda::kLocationDevice, 0}, access};
  EXPECT_EQ(driver.cuMemSetAccess(start, kChunk, &description, 1), 0);
  return start;
}

MemoryHandle import(const cuda::Driver& driver, int descriptor) {
  MemoryHandle handle = 0;
  EXPECT_EQ(driver.cuMemImportFromShareableHandle(
                &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                cuda::kHandleDescriptor),
            0);
  return handle;
}

TEST_F(SimVirtualMemory, IsSentAsDescriptorAndOutlivesItsCreator) {
  auto [ours, theirs] = socket_pair();
  Child maker([&theirs] {
    const cuda::Driver& driver = driver_with_context();
    const auto properties = shareable();
    MemoryHandle handle = 0;
    ASSERT_EQ(driver.cuMemCreate(&handle, kChunk, &properties, 0), 0);
    write_device(driver, map(driver, handle, cuda::kAccessReadWrite), {4, 5, 6});
    int descriptor = -1;
    ASSERT_EQ(driver.cuMemExportToShareableHandle(&descriptor, handle, cuda::kHandleDescriptor, 0),
              0);
    EXPECT_EQ(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0) << "callers must set close-on-exec";
    const std::byte byte{};
    send_message(theirs, {&byte, 1}, {&descriptor, 1});
  });
  EXPECT_EQ(maker.wait(), 0);
  in_child([&ours] {
    EXPECT_EQ(live_bytes(), kChunk) << "the descriptor is only in the socket's queue";
    std::byte byte{};
    auto received = receive_message(ours, {&byte, 1});
    ASSERT_TRUE(received && received->fds.size() == 1);
    const cuda::Driver& driver = driver_with_context();
    const MemoryHandle handle = import(driver, received->fds.front().get());
    received.reset();
    const DevicePtr start = map(driver, handle, cuda::kAccessReadWrite);
    EXPECT_EQ(driver.cuMemRelease(handle), 0);
    EXPECT_EQ(read_device(driver, start, 3), (std::vector<unsigned char>{4, 5, 6}));
    EXPECT_EQ(live_bytes(), kChunk) << "the mapping keeps it";
    EXPECT_EQ(driver.cuMemUnmap(start, kChunk), 0);
    EXPECT_EQ(live_bytes(), 0u);
  });
}

TEST_F(SimVirtualMemory, MemoryOfKilledProcessIsFreed) {
  Shared<Turn> turn;
  Child holder([&turn] {
    const cuda::Driver& driver = driver_with_context();
    const auto properties = shareable();
    MemoryHandle handle = 0;
    ASSERT_EQ(driver.cuMemCreate(&handle, kChunk, &properties, 0), 0);
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  in_child([] { EXPECT_EQ(live_bytes(), kChunk); });
  holder.kill_and_reap();
  in_child([] { EXPECT_EQ(live_bytes(), 0u); });
}

TEST_F(SimVirtualMemory, WriteToReadOnlyMappingDestroysContext) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    const auto properties = shareable();
    MemoryHandle handle = 0;
    ASSERT_EQ(driver.cuMemCreate(&handle, kChunk, &properties, 0), 0);
    const DevicePtr writable = map(driver, handle, cuda::kAccessReadWrite);
    const DevicePtr readable = map(driver, handle, cuda::kAccessRead);
    write_device(driver, writable, {8});
    EXPECT_EQ(read_device(driver, readable, 1).front(), 8) << "the same pages";
    EXPECT_EQ(driver.cuMemsetD8Async(readable, 0, 1, nullptr), cuda::kInvalidValue);
    EXPECT_EQ(driver.cuMemsetD8Async(writable, 0, 1, nullptr), cuda::kSuccess);
  });
}

TEST_F(SimVirtualMemory, VirtualMemoryErrorsMatchTheDriver) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    auto properties = shareable();
    MemoryHandle handle = 0;
    EXPECT_EQ(driver.cuMemCreate(&handle, 0, &properties, 0), 1);
    EXPECT_EQ(driver.cuMemCreate(&handle, 4096, &properties, 0), 1);
    ASSERT_EQ(driver.cuMemCreate(&handle, kChunk, &properties, 0), 0);
    DevicePtr start = 0;
    EXPECT_EQ(driver.cuMemAddressReserve(&start, 0, 0, 0, 0), 1);
    ASSERT_EQ(driver.cuMemAddressReserve(&start, 2 * kChunk, 0, 0, 0), 0);
    EXPECT_EQ(driver.cuMemMap(start, kChunk, 4096, handle, 0), 1);
    EXPECT_EQ(driver.cuMemMap(start, 2 * kChunk, 0, handle, 0), 1) << "not its size";
    EXPECT_EQ(driver.cuMemMap(start + 2 * kChunk, kChunk, 0, handle, 0), 1) << "not reserved";
    ASSERT_EQ(driver.cuMemMap(start, kChunk, 0, handle, 0), 0);
    EXPECT_EQ(driver.cuMemMap(start, kChunk, 0, handle, 0), 1) << "mapped already";
    EXPECT_EQ(driver.cuMemsetD8Async(start, 0, 1, nullptr), 1) << "no access was granted";
    EXPECT_EQ(driver.cuMemSetAccess(start, kChunk, nullptr, 0), 1);
    EXPECT_EQ(driver.cuMemUnmap(start, kChunk / 2), 1);
    EXPECT_EQ(driver.cuMemAddressFree(start, 2 * kChunk), 1) << "still mapped";
    EXPECT_EQ(driver.cuMemUnmap(start, kChunk), 0);
    EXPECT_EQ(driver.cuMemAddressFree(start, kChunk), 1) << "not as reserved";
    EXPECT_EQ(driver.cuMemAddressFree(start, 2 * kChunk), 0);
    int descriptor = -1;
    properties = shareable(0);
    ASSERT_EQ(driver.cuMemCreate(&handle, kChunk, &properties, 0), 0);
    EXPECT_EQ(driver.cuMemExportToShareableHandle(&descriptor, handle, 1, 0), 1);
    EXPECT_EQ(driver.cuMemImportFromShareableHandle(&handle, nullptr, 1), 1)
        << "descriptor 0 is not memory";
    EXPECT_EQ(driver.cuMemRelease(handle + 99), 1);
  });
}

}  // namespace
}  // namespace shmtensor::testing
