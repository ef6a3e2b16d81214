// The simulator's events, in one process and between two.
#include <unistd.h>

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::EventHandle;
using cuda::StreamHandle;

class SimEvents : public SimTest {};

constexpr unsigned kShared = cuda::kEventNoTiming | cuda::kEventInterprocess;

TEST_F(SimEvents, OtherProcessWaitsForWork) {
  struct Letter {
    Turn turn;
    cuda::IpcEventHandle handle;
  };
  Shared<Letter> letter;
  Child recorder([&] {
    const cuda::Driver& driver = driver_with_context();
    StreamHandle stream = nullptr;
    EventHandle event = nullptr;
    ASSERT_EQ(driver.cuStreamCreate(&stream, 0), 0);
    ASSERT_EQ(driver.cuEventCreate(&event, kShared), 0);
    sim_function<int(StreamHandle, const char*)>("sim_latch")(stream, path("latch").c_str());
    ASSERT_EQ(driver.cuEventRecord(event, stream), 0);
    ASSERT_EQ(driver.cuIpcGetEventHandle(&letter->handle, event), 0);
    EventHandle own = nullptr;
    EXPECT_EQ(driver.cuIpcOpenEventHandle(&own, letter->handle), cuda::kInvalidContext);
    letter->turn.set(1);
    ASSERT_TRUE(letter->turn.reaches(2));
    EXPECT_EQ(driver.cuEventDestroy_v2(event), 0);
    letter->turn.set(3);
  });
  in_child([&] {
    ASSERT_TRUE(letter->turn.reaches(1));
    const cuda::Driver& driver = driver_with_context();
    EventHandle event = nullptr;
    ASSERT_EQ(driver.cuIpcOpenEventHandle(&event, letter->handle), 0);
    ASSERT_EQ(driver.cuStreamWaitEvent(nullptr, event, 0), 0);
    EXPECT_EQ(driver.cuEventQuery(event), cuda::kNotReady);
    EXPECT_EQ(driver.cuStreamQuery(nullptr), cuda::kNotReady);
    touch(path("latch"));
    EXPECT_EQ(driver.cuStreamSynchronize(nullptr), 0);
    EXPECT_EQ(driver.cuEventSynchronize(event), 0);
    EXPECT_EQ(driver.cuEventDestroy_v2(event), 0);
    letter->turn.set(2);
    ASSERT_TRUE(letter->turn.reaches(3));
    EXPECT_EQ(driver.cuIpcOpenEventHandle(&event, letter->handle), cuda::kMapFailed) << "destroyed";
  });
  EXPECT_EQ(recorder.wait(), 0);
}

TEST_F(SimEvents, EventErrorsMatchTheDriver) {
  ::setenv("SHMTENSOR_SIM_EVENTS", "2", 1);
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    EventHandle event = nullptr;
    cuda::IpcEventHandle handle{};
    EXPECT_EQ(driver.cuEventCreate(&event, cuda::kEventInterprocess), 1) << "with timing";
    ASSERT_EQ(driver.cuEventCreate(&event, cuda::kEventNoTiming), 0);
    EXPECT_EQ(driver.cuIpcGetEventHandle(&handle, event), cuda::kInvalidHandle);
    EXPECT_EQ(driver.cuEventQuery(event), 0) << "never recorded: done";
    ASSERT_EQ(driver.cuEventCreate(&event, kShared), 0);
    EXPECT_EQ(driver.cuEventCreate(&event, kShared), cuda::kOutOfMemory);
  });
}

}  // namespace
}  // namespace shmtensor::testing
