// The simulated driver in tests: each process of a test loads it for itself.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cuda/driver.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"

namespace shmtensor::testing {

/// A function of the simulator that no driver has.
template <typename Signature>
Signature* sim_function(const char* name) {
  void* library = ::dlopen(std::getenv("SHMTENSOR_LIBCUDA"), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = ::dlopen(std::getenv("SHMTENSOR_LIBCUDA"), RTLD_NOW);
  return reinterpret_cast<Signature*>(::dlsym(library, name));
}

/// A directory for one test's devices. The driver must not be loaded in the test's own process:
/// everything that calls it runs in children.
class SimTest : public ::testing::Test {
 protected:
  SimTest() {
    std::string place = "/tmp/shmtensor-sim-XXXXXX";
    arenas_in_session_ = ::mkdtemp(place.data());
    ::setenv("SHMTENSOR_SIM_DIR", arenas_in_session_.c_str(), 1);
    ::setenv("SHMTENSOR_LIBCUDA", SHMTENSOR_SIM, 1);
  }
  ~SimTest() override {
    for (const char* name :
         {"SHMTENSOR_SIM_DIR", "SHMTENSOR_LIBCUDA", "SHMTENSOR_SIM_MODE", "SHMTENSOR_SIM_FAULTS",
          "SHMTENSOR_SIM_ATTRIBUTES", "SHMTENSOR_SIM_PID", "SHMTENSOR_SIM_P2P",
          "SHMTENSOR_SIM_LIMIT", "SHMTENSOR_SIM_EVENTS", "SHMTENSOR_SIM_PITCH",
          "SHMTENSOR_SIM_LATE", "CUDA_VISIBLE_DEVICES"}) {
      ::unsetenv(name);
    }
    std::filesystem::remove_all(arenas_in_session_);
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return arenas_in_session_ + "/" + name;
  }
  static void touch(const std::string& path) { std::ofstream file(path); }

  std::string arenas_in_session_;
};

/// The driver with device 0's primary context current.
inline const cuda::Driver& driver_with_context(int device = 0) {
  const cuda::Driver& driver = cuda::Driver::get();
  cuda::ContextHandle context = nullptr;
  EXPECT_EQ(driver.cuDevicePrimaryCtxRetain(&context, device), 0);
  EXPECT_EQ(driver.cuCtxPushCurrent_v2(context), 0);
  return driver;
}

inline std::uint64_t live_bytes() { return sim_function<std::uint64_t()>("sim_live_bytes")(); }

/// Bytes of device memory, accessed as by a program.
inline std::vector<unsigned char> read_device(const cuda::Driver& driver, cuda::DevicePtr from,
                                              std::size_t size) {
  std::vector<unsigned char> bytes(size);
  EXPECT_EQ(driver.cuMemcpyDtoHAsync_v2(bytes.data(), from, size, nullptr), 0);
  EXPECT_EQ(driver.cuStreamSynchronize(nullptr), 0);
  return bytes;
}
inline void write_device(const cuda::Driver& driver, cuda::DevicePtr to,
                         const std::vector<unsigned char>& bytes) {
  EXPECT_EQ(driver.cuMemcpyHtoDAsync_v2(to, bytes.data(), bytes.size(), nullptr), 0);
  EXPECT_EQ(driver.cuStreamSynchronize(nullptr), 0);
}

}  // namespace shmtensor::testing
