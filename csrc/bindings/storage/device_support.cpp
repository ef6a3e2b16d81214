#include "bindings/storage/device_support.hpp"

namespace shmtensor::python {
namespace {

DeviceSupport g_support{};

}  // namespace

const DeviceSupport& device_support() noexcept { return g_support; }

void set_device_support(const DeviceSupport& support) noexcept { g_support = support; }

}  // namespace shmtensor::python
