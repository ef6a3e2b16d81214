#include "cuda/device_summary.hpp"

#include <array>

namespace shmtensor::cuda {

DeviceSummary summarize_device(int number) {
  const Driver& driver = Driver::get();
  const std::string what = "describe cuda:" + std::to_string(number);
  const auto has = [&](int attribute) { return attribute_of(driver, number, attribute) > 0; };
  std::array<char, 128> name{};
  DeviceSummary summary;
  driver.check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, number),
               what);
  driver.check(driver.cuDeviceGetUuid_v2(&summary.uuid, number), what);
  summary.name = name.data();
  summary.virtual_memory = shares_virtual_memory(driver, number);
  summary.ipc = has_ipc(driver, number);
  summary.integrated = has(kIsIntegrated);
  summary.mps = has(kIsMpsClient);
  summary.exclusive = has(kComputeMode);
  for (int peer = 0; peer < Gpu::count(); ++peer) {
    if (peer != number && can_access_peer(driver, number, peer)) summary.peers.push_back(peer);
  }
  return summary;
}

}  // namespace shmtensor::cuda
