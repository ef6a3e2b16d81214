// The simulator's legacy IPC rules.
#include <unistd.h>

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::DevicePtr;
using cuda::IpcMemoryHandle;

struct Letter {
  Turn turn;
  IpcMemoryHandle handle;
  DevicePtr pointer;
};

class SimIpc : public SimTest {
 protected:
  // A process that has 3 MiB on the GPU and executes commands.
  [[nodiscard]] std::unique_ptr<Child> exporter() {
    auto child = std::make_unique<Child>([this] {
      const cuda::Driver& driver = driver_with_context();
      ASSERT_EQ(driver.cuMemAlloc_v2(&letter_->pointer, 3 << 20), 0);
      write_device(driver, letter_->pointer, {7, 8, 9});
      IpcMemoryHandle inner{};
      ASSERT_EQ(driver.cuIpcGetMemHandle(&letter_->handle, letter_->pointer), 0);
      ASSERT_EQ(driver.cuIpcGetMemHandle(&inner, letter_->pointer + 4096), 0);
      EXPECT_TRUE(inner == letter_->handle) << "a handle names the whole allocation";
      EXPECT_EQ(driver.cuIpcOpenMemHandle_v2(&letter_->pointer, inner, 1), cuda::kInvalidContext);
      letter_->turn.set(1);
      ASSERT_TRUE(letter_->turn.reaches(2));
      EXPECT_EQ(driver.cuMemFree_v2(letter_->pointer), 0);
      letter_->turn.set(3);
      ASSERT_TRUE(letter_->turn.reaches(4));
    });
    EXPECT_TRUE(letter_->turn.reaches(1));
    return child;
  }

  Shared<Letter> letter_;
};

TEST_F(SimIpc, OpensOncePerContextAndCountsOpens) {
  const auto owner = exporter();
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr first = 0;
    DevicePtr second = 0;
    ASSERT_EQ(driver.cuIpcOpenMemHandle_v2(&first, letter_->handle, 1), 0);
    ASSERT_EQ(driver.cuIpcOpenMemHandle_v2(&second, letter_->handle, 1), 0);
    EXPECT_EQ(first, second);
    EXPECT_EQ(read_device(driver, first, 3), (std::vector<unsigned char>{7, 8, 9}));
    IpcMemoryHandle again{};
    EXPECT_EQ(driver.cuIpcGetMemHandle(&again, first), 1) << "opened memory is not exported";
    auto* make = sim_function<cuda::ContextHandle(int)>("sim_second_context");
    ASSERT_EQ(driver.cuCtxPushCurrent_v2(make(0)), 0);
    EXPECT_EQ(driver.cuIpcOpenMemHandle_v2(&second, letter_->handle, 1), cuda::kInvalidHandle);
    ASSERT_EQ(driver.cuCtxPopCurrent_v2(nullptr), 0);
    EXPECT_EQ(driver.cuIpcCloseMemHandle(first), 0);
    EXPECT_EQ(read_device(driver, first, 1).size(), 1u) << "still open once";
    EXPECT_EQ(driver.cuIpcCloseMemHandle(first), 0);
    EXPECT_EQ(driver.cuIpcCloseMemHandle(first), 1);
    EXPECT_EQ(driver.cuIpcOpenMemHandle_v2(&first, IpcMemoryHandle{}, 1), 1);
  });
  letter_->turn.set(2);
  EXPECT_TRUE(letter_->turn.reaches(3));
  letter_->turn.set(4);
  EXPECT_EQ(owner->wait(), 0);
}

TEST_F(SimIpc, MappingOutlivesExporterButCannotBeReopened) {
  const auto owner = exporter();
  in_child([&] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr start = 0;
    ASSERT_EQ(driver.cuIpcOpenMemHandle_v2(&start, letter_->handle, 1), 0);
    ::kill(owner->pid(), SIGKILL);
    ASSERT_TRUE(eventually([&] { return !is_alive({owner->pid(), 0}); }));
    EXPECT_EQ(read_device(driver, start, 3), (std::vector<unsigned char>{7, 8, 9}));
    ASSERT_EQ(driver.cuIpcCloseMemHandle(start), 0);
    EXPECT_EQ(driver.cuIpcOpenMemHandle_v2(&start, letter_->handle, 1), cuda::kInvalidHandle);
    EXPECT_EQ(live_bytes(), 0u);
  });
}

TEST_F(SimIpc, FreedMemoryCannotBeOpenedAndIsPoisoned) {
  const auto owner = exporter();
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    DevicePtr start = 0;
    ASSERT_EQ(driver.cuIpcOpenMemHandle_v2(&start, letter_->handle, 1), 0);
    letter_->turn.set(2);
    ASSERT_TRUE(letter_->turn.reaches(3));
    EXPECT_EQ(read_device(driver, start, 1).front(), 0xDD);
    ASSERT_EQ(driver.cuIpcCloseMemHandle(start), 0);
    EXPECT_EQ(driver.cuIpcOpenMemHandle_v2(&start, letter_->handle, 1), 1);
  });
  letter_->turn.set(4);
  EXPECT_EQ(owner->wait(), 0);
}

TEST_F(SimIpc, OnlyPlainMemoryHasIpcHandles) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    auto* make = sim_function<DevicePtr(const char*, std::size_t)>("sim_allocate");
    IpcMemoryHandle handle{};
    EXPECT_EQ(driver.cuIpcGetMemHandle(&handle, make("managed", 4096)), 1);
    EXPECT_EQ(driver.cuIpcGetMemHandle(&handle, make("pool", 4096)), 1);
    EXPECT_EQ(driver.cuIpcGetMemHandle(&handle, 4096), 1);
  });
}

TEST_F(SimIpc, ModesSimulateOtherMachines) {
  const auto owner = exporter();
  const auto opens = [this] {
    return exit_of([this] {
      DevicePtr start = 0;
      return driver_with_context().cuIpcOpenMemHandle_v2(&start, letter_->handle, 1) % 255;
    });
  };
  EXPECT_EQ(opens(), 0);
  ::setenv("SHMTENSOR_SIM_MODE", "wsl", 1);
  EXPECT_EQ(opens(), cuda::kInvalidHandle % 255);
  ::unsetenv("SHMTENSOR_SIM_MODE");
  ::setenv("SHMTENSOR_SIM_PID", std::to_string(owner->pid()).c_str(), 1);
  EXPECT_EQ(opens(), cuda::kInvalidContext) << "another PID namespace, the same number";
  ::unsetenv("SHMTENSOR_SIM_PID");
  letter_->turn.set(2);
  EXPECT_TRUE(letter_->turn.reaches(3));
  letter_->turn.set(4);
  EXPECT_EQ(owner->wait(), 0);
}

}  // namespace
}  // namespace shmtensor::testing
