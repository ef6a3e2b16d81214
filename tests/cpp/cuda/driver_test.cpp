#include "cuda/driver.hpp"

#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::CudaUnavailable;
using cuda::Driver;

class CudaDriver : public SimTest {};

std::string refusal() {
  try {
    static_cast<void>(Driver::get());
    return "none";
  } catch (const CudaUnavailable& error) {
    return error.what();
  }
}

void expect_refusal(const char* part) {
  in_child([part] {
    const std::string text = refusal();
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(refusal(), text) << "the same at each call";
  });
}

TEST_F(CudaDriver, IsLoadedAndNamesItsErrors) {
  in_child([] {
    EXPECT_EQ(Driver::usable(), nullptr) << "nothing is loaded before the first request";
    const Driver& driver = Driver::get();
    EXPECT_EQ(Driver::usable(), &driver);
    EXPECT_TRUE(driver.has_virtual_memory());
    EXPECT_TRUE(driver.has_ipc());
    EXPECT_EQ(driver.version(), 13000);
    EXPECT_EQ(driver.name_of(2), "CUDA_ERROR_OUT_OF_MEMORY (2, out of memory)");
    EXPECT_EQ(driver.name_of(12345), "error 12345");
    driver.check(0, "do nothing");
    try {
      driver.check(2, "allocate 5 bytes");
      ADD_FAILURE();
    } catch (const cuda::CudaError& error) {
      EXPECT_EQ(error.code(), 2);
      EXPECT_NE(std::string(error.what()).find("cannot allocate 5 bytes: CUDA_ERROR_OUT_OF_MEMORY"),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("free tensors"), std::string::npos);
    }
  });
}

TEST_F(CudaDriver, ReportsMissingFunctions) {
  ::setenv("SHMTENSOR_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  expect_refusal("cannot load /nowhere/libcuda.so.1");
  ::setenv("SHMTENSOR_LIBCUDA", "libm.so.6", 1);
  expect_refusal("libm.so.6 has no cuInit");
}

}  // namespace
}  // namespace shmtensor::testing
