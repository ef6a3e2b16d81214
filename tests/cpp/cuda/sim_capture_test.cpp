// The simulator's captures of streams, and its contexts.
#include <thread>

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::StreamHandle;

class SimCapture : public SimTest {
 protected:
  static StreamHandle stream(unsigned flags) {
    StreamHandle made = nullptr;
    EXPECT_EQ(cuda::Driver::get().cuStreamCreate(&made, flags), 0);
    return made;
  }
  static void begin(StreamHandle stream, int mode) {
    ASSERT_EQ(sim_function<int(StreamHandle, int)>("cuStreamBeginCapture_v2")(stream, mode), 0);
  }
  static int end(StreamHandle stream) {
    void* graph = nullptr;
    return sim_function<int(StreamHandle, void**)>("cuStreamEndCapture")(stream, &graph);
  }
  static int in_other_thread(const cuda::Driver& driver, int mode) {
    int code = 0;
    std::thread([&] {
      driver_with_context();
      driver.cuThreadExchangeStreamCaptureMode(&mode);
      cuda::EventHandle event = nullptr;
      code = driver.cuEventCreate(&event, 0);
    }).join();
    return code;
  }
};

constexpr int kGlobal = 0;
constexpr int kThreadLocal = 1;
constexpr int kRelaxed = 2;

TEST_F(SimCapture, ProhibitsUnsafeCallsByTheModesOfBothThreads) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    const StreamHandle one = stream(cuda::kStreamNonBlocking);
    for (const int capture : {kGlobal, kThreadLocal, kRelaxed}) {
      for (const int thread : {kGlobal, kThreadLocal, kRelaxed}) {
        begin(one, capture);
        const bool prohibited = capture == kGlobal && thread == kGlobal;
        EXPECT_EQ(in_other_thread(driver, thread), prohibited ? 900 : 0) << capture << thread;
        EXPECT_EQ(end(one), prohibited ? 901 : 0);
        begin(one, capture);
        int mode = thread;
        ASSERT_EQ(driver.cuThreadExchangeStreamCaptureMode(&mode), 0);
        EXPECT_EQ(mode, kGlobal) << "the mode of a new thread";
        cuda::DevicePtr memory = 0;
        const bool refused = capture != kRelaxed && thread != kRelaxed;
        EXPECT_EQ(driver.cuMemAlloc_v2(&memory, 8), refused ? 900 : 0);
        EXPECT_EQ(end(one), refused ? 901 : 0);
        ASSERT_EQ(driver.cuThreadExchangeStreamCaptureMode(&mode), 0);
      }
    }
  });
}

TEST_F(SimCapture, RefusesToWaitForWhatIsCaptured) {
  in_child([] {
    const cuda::Driver& driver = driver_with_context();
    int mode = kRelaxed;
    ASSERT_EQ(driver.cuThreadExchangeStreamCaptureMode(&mode), 0);
    for (const unsigned flags : {0u, cuda::kStreamNonBlocking}) {
      const StreamHandle one = stream(flags);
      const bool blocking = flags == 0;
      int status = 0;
      begin(one, kGlobal);
      EXPECT_EQ(driver.cuStreamIsCapturing(one, &status), 0);
      EXPECT_EQ(status, 1);
      EXPECT_EQ(driver.cuStreamIsCapturing(cuda::legacy_stream(), &status), blocking ? 906 : 0);
      EXPECT_EQ(end(one), 0) << "to ask is harmless";
      begin(one, kGlobal);
      EXPECT_EQ(driver.cuStreamSynchronize(cuda::legacy_stream()), blocking ? 906 : 0);
      EXPECT_EQ(end(one), blocking ? 901 : 0);
      for (auto* wait :
           {+[](const cuda::Driver& used, StreamHandle stream) {
              return used.cuStreamSynchronize(stream);
            },
            +[](const cuda::Driver& used, StreamHandle) { return used.cuCtxSynchronize(); }}) {
        begin(one, kGlobal);
        EXPECT_EQ(wait(driver, one), 900);
        EXPECT_EQ(end(one), 901);
      }
    }
  });
}

TEST_F(SimCapture, ContextCoversItsOwnWorkOnly) {
  in_child([this] {
    const cuda::Driver& driver = driver_with_context();
    cuda::EventHandle event = nullptr;
    ASSERT_EQ(driver.cuEventCreate(&event, cuda::kEventNoTiming), 0);
    auto* make = sim_function<cuda::ContextHandle(int)>("sim_second_context");
    ASSERT_EQ(driver.cuCtxPushCurrent_v2(make(0)), 0);
    const StreamHandle other = stream(0);
    sim_function<int(StreamHandle, const char*)>("sim_latch")(other, path("latch").c_str());
    EXPECT_EQ(driver.cuEventRecord(event, other), cuda::kInvalidHandle) << "of another context";
    ASSERT_EQ(driver.cuCtxPopCurrent_v2(nullptr), 0);
    EXPECT_EQ(driver.cuCtxSynchronize(), 0) << "does not wait for the other context";
    EXPECT_EQ(driver.cuStreamQuery(other), cuda::kNotReady);
    touch(path("latch"));
  });
}

}  // namespace
}  // namespace shmtensor::testing
