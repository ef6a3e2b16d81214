// The simulator's plain memory and streams, on which other tests rely.
#include <signal.h>

#include <thread>

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::DevicePtr;
using cuda::StreamHandle;

class SimMemory : public SimTest {};

TEST_F(SimMemory, DeviceBytesAreNotHostAccessible) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr pointer = 0;
    ASSERT_EQ(driver.cuMemAlloc_v2(&pointer, 3 << 20), 0);
    write_device(driver, pointer + 5, {1, 2, 3});
    EXPECT_EQ(read_device(driver, pointer + 5, 3), (std::vector<unsigned char>{1, 2, 3}));
    EXPECT_EQ(-SIGSEGV, exit_of([pointer] {
      ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would print a page of text
      return *reinterpret_cast<volatile unsigned char*>(pointer) == 7 ? 1 : 0;
    }));
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 0), cuda::kInvalidValue);
    EXPECT_EQ(driver.cuMemFree_v2(pointer + 1), cuda::kInvalidValue);
    EXPECT_EQ(driver.cuMemFree_v2(pointer), 0);
    EXPECT_EQ(driver.cuMemcpyDtoDAsync_v2(pointer, pointer, 1, nullptr), cuda::kInvalidValue);
  });
}

TEST_F(SimMemory, NeedsInitializationAndContext) {
  in_child([] {
    auto* alloc = sim_function<int(DevicePtr*, std::size_t)>("cuMemAlloc_v2");
    DevicePtr pointer = 0;
    EXPECT_EQ(alloc(&pointer, 512), cuda::kNotInitialized);
    const cuda::Driver& driver = cuda::Driver::get();
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), cuda::kInvalidContext);
    driver_with_context();
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), 0);
    EXPECT_EQ(driver.cuDevicePrimaryCtxRelease_v2(0), 0);
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), cuda::kContextDestroyed);
  });
}

TEST_F(SimMemory, SmallAllocationsShareABlockButAreDistinct) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr first = 0;
    DevicePtr second = 0;
    ASSERT_EQ(driver.cuMemAlloc_v2(&first, 100), 0);
    ASSERT_EQ(driver.cuMemAlloc_v2(&second, 100), 0);
    EXPECT_EQ(second, first + 512);
    DevicePtr base = 0;
    std::size_t size = 0;
    ASSERT_EQ(driver.cuMemGetAddressRange_v2(&base, &size, second + 50), 0);
    EXPECT_EQ(base, second);
    EXPECT_EQ(size, 100u);
    std::uint64_t id = 0;
    int capable = 0;
    int names[] = {cuda::kPointerBufferId, cuda::kPointerIpcCapable};
    void* values[] = {&id, &capable};
    ASSERT_EQ(driver.cuPointerGetAttributes(2, names, values, second), 0);
    EXPECT_NE(id, 0u);
    EXPECT_EQ(capable, 1);
    EXPECT_EQ(driver.cuPointerGetAttributes(2, names, values, 12345), 0) << "unknown: zeros";
    EXPECT_EQ(id, 0u);
  });
}

TEST_F(SimMemory, StreamsRunAsynchronously) {
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr pointer = 0;
    ASSERT_EQ(driver.cuMemAlloc_v2(&pointer, 512), 0);
    write_device(driver, pointer, {1});
    StreamHandle other = nullptr;
    StreamHandle apart = nullptr;
    ASSERT_EQ(driver.cuStreamCreate(&other, 0), 0);
    ASSERT_EQ(driver.cuStreamCreate(&apart, cuda::kStreamNonBlocking), 0);
    sim_function<int(StreamHandle, const char*)>("sim_latch")(other, path("latch").c_str());
    ASSERT_EQ(driver.cuMemsetD8Async(pointer, 9, 1, other), 0);
    EXPECT_EQ(driver.cuStreamQuery(other), cuda::kNotReady);
    unsigned char seen = 0;
    ASSERT_EQ(driver.cuMemcpyDtoHAsync_v2(&seen, pointer, 1, apart), 0);
    ASSERT_EQ(driver.cuStreamSynchronize(apart), 0);
    EXPECT_EQ(seen, 1) << "a non-blocking stream does not wait";
    std::thread opener([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      touch(path("latch"));
    });
    EXPECT_EQ(read_device(driver, pointer, 1).front(), 9) << "the legacy stream waits for others";
    opener.join();
  });
}

TEST_F(SimMemory, FaultsAreInjectedByNameAndCount) {
  ::setenv("SHMTENSOR_SIM_FAULTS", "cuMemAlloc_v2:2:2", 1);
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr pointer = 0;
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), 0);
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), cuda::kOutOfMemory);
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 512), 0);
    sim_function<void(const char*, long, int)>("sim_fault")("cuMemFree_v2", 0, 700);
    EXPECT_EQ(driver.cuMemFree_v2(pointer), 700);
    EXPECT_EQ(sim_function<std::uint64_t(const char*)>("sim_calls")("cuMemAlloc_v2"), 3u);
    const std::string log = sim_function<const char*()>("sim_log")();
    EXPECT_NE(log.find("cuMemAlloc_v2 2\ncuMemAlloc_v2 0\ncuMemFree_v2 700\n"), std::string::npos);
  });
}

TEST_F(SimMemory, EveryCallInForkedChildFails) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr pointer = 0;
    ASSERT_EQ(driver.cuMemAlloc_v2(&pointer, 512), 0);
    in_child([&] {
      EXPECT_EQ(driver.cuInit(0), cuda::kNotInitialized);
      EXPECT_EQ(driver.cuMemFree_v2(pointer), cuda::kNotInitialized);
    });
  });
}

TEST_F(SimMemory, LimitsAndDeviceCountAreConfigurable) {
  ::setenv("SHMTENSOR_SIM_LIMIT", "4194304", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr pointer = 0;
    EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, 8 << 20), cuda::kOutOfMemory);
    int count = 0;
    ASSERT_EQ(driver.cuDeviceGetCount(&count), 0);
    EXPECT_EQ(count, 2);
    cuda::Uuid first{};
    cuda::Uuid second{};
    ASSERT_EQ(driver.cuDeviceGetUuid_v2(&first, 0), 0);
    ASSERT_EQ(driver.cuDeviceGetUuid_v2(&second, 1), 0);
    EXPECT_EQ(first.bytes[15], 1) << "the second GPU comes first";
    EXPECT_EQ(second.bytes[15], 0);
    EXPECT_EQ(driver.cuDeviceGetUuid_v2(&second, 2), cuda::kInvalidDevice);
  });
}

}  // namespace
}  // namespace shmtensor::testing
