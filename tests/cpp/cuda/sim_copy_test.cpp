// Checks of copies that a real driver may make, too.
#include <chrono>
#include <thread>

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::Copy2D;
using cuda::DevicePtr;

using Bytes = std::vector<unsigned char>;

class SimCopy : public SimTest {};

DevicePtr allocate(const cuda::Driver& driver, std::size_t size) {
  DevicePtr pointer = 0;
  EXPECT_EQ(driver.cuMemAlloc_v2(&pointer, size), 0);
  return pointer;
}

Copy2D::Side device_side(DevicePtr start, std::size_t pitch) {
  Copy2D::Side side{};
  side.type = cuda::kMemoryTypeDevice;
  side.device = start;
  side.pitch = pitch;
  return side;
}

Copy2D::Side host_side(void* start, std::size_t pitch) {
  Copy2D::Side side{};
  side.type = cuda::kMemoryTypeHost;
  side.host = start;
  side.pitch = pitch;
  return side;
}

TEST_F(SimCopy, OverlappingAreasAreRejected) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    const DevicePtr start = allocate(driver, 512);
    EXPECT_EQ(driver.cuMemcpyDtoDAsync_v2(start + 99, start, 100, nullptr), cuda::kInvalidValue);
    EXPECT_EQ(driver.cuMemcpyDtoDAsync_v2(start, start + 99, 100, nullptr), cuda::kInvalidValue);
    EXPECT_EQ(driver.cuMemcpyDtoDAsync_v2(start + 100, start, 100, nullptr), 0);
    const Copy2D columns{device_side(start, 8), device_side(start + 1, 8), 2, 4};
    EXPECT_EQ(driver.cuMemcpy2DAsync_v2(&columns, nullptr), cuda::kInvalidValue);
  });
}

TEST_F(SimCopy, RowsAreCopiedAtTheirPitch) {
  ::setenv("SHMTENSOR_SIM_PITCH", "9", 1);
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    const DevicePtr start = allocate(driver, 512);
    Bytes rows{1, 2, 3, 4, 5, 6};
    const Copy2D in{host_side(rows.data(), 3), device_side(start, 4), 2, 2};
    ASSERT_EQ(driver.cuMemcpy2DAsync_v2(&in, nullptr), 0);
    const Copy2D over{device_side(start, 4), device_side(start + 16, 5), 2, 2};
    ASSERT_EQ(driver.cuMemcpy2DAsync_v2(&over, nullptr), 0);
    Bytes seen(6);
    const Copy2D out{device_side(start + 16, 5), host_side(seen.data(), 4), 2, 2};
    ASSERT_EQ(driver.cuMemcpy2DAsync_v2(&out, nullptr), 0);
    ASSERT_EQ(driver.cuStreamSynchronize(nullptr), 0);
    EXPECT_EQ(seen, (Bytes{1, 2, 0, 0, 4, 5}));
    const Copy2D narrow{device_side(start, 1), host_side(seen.data(), 4), 2, 2};
    EXPECT_EQ(driver.cuMemcpy2DAsync_v2(&narrow, nullptr), cuda::kInvalidValue);
    const Copy2D far{device_side(start, 10), host_side(seen.data(), 4), 2, 2};
    EXPECT_EQ(driver.cuMemcpy2DAsync_v2(&far, nullptr), cuda::kInvalidValue);
  });
}

TEST_F(SimCopy, HostMemoryIsReadWhenWorkRuns) {
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    const DevicePtr start = allocate(driver, 512);
    Bytes bytes{1};
    sim_function<int(cuda::StreamHandle, const char*)>("sim_latch")(nullptr, path("latch").c_str());
    ASSERT_EQ(driver.cuMemcpyHtoDAsync_v2(start, bytes.data(), 1, nullptr), 0);
    bytes[0] = 2;
    EXPECT_EQ(driver.cuStreamQuery(nullptr), cuda::kNotReady);
    touch(path("latch"));
    ASSERT_EQ(driver.cuStreamSynchronize(nullptr), 0);
    EXPECT_EQ(read_device(driver, start, 1), Bytes{2});
  });
}

TEST_F(SimCopy, EachDeviceHasItsOwnDefaultStream) {
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    sim_function<int(cuda::StreamHandle, const char*)>("sim_latch")(nullptr, path("latch").c_str());
    EXPECT_EQ(driver.cuStreamQuery(nullptr), cuda::kNotReady);
    driver_with_context(1);
    EXPECT_EQ(driver.cuStreamQuery(nullptr), 0);
    EXPECT_EQ(driver.cuCtxSynchronize(), 0);
    EXPECT_EQ(driver.cuCtxPopCurrent_v2(nullptr), 0);
    touch(path("latch"));
    EXPECT_EQ(driver.cuCtxSynchronize(), 0);
    EXPECT_EQ(driver.cuStreamQuery(nullptr), 0);
  });
}

}  // namespace
}  // namespace shmtensor::testing
