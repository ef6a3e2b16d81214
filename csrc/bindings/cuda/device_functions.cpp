#include "bindings/cuda/device_functions.hpp"

#include <array>
#include <string>

#include "bindings/storage/storage.hpp"
#include "bindings/support/device_wait.hpp"
#include "bindings/support/gil.hpp"
#include "cuda/awaited_events.hpp"
#include "cuda/contexts.hpp"
#include "cuda/event.hpp"
#include "cuda/pointer_attributes.hpp"

namespace shmtensor::python {
namespace {

using py::literals::operator""_a;

void order_streams(int device, std::uint64_t first, std::uint64_t then) {
  const GilRelease release;
  const cuda::Gpu& gpu = cuda::Gpu::get(device);
  cuda::order(gpu, gpu.context(), cuda::to_stream(first), cuda::to_stream(then));
}

void wait_for_stream(int device, std::uint64_t memory, std::uint64_t stream) {
  const GilRelease release;
  cuda::wait_for_stream(cuda::Gpu::get(device), memory, cuda::to_stream(stream));
}

void join_stream(int device, std::uint64_t memory, std::uint64_t stream) {
  const GilRelease release;
  cuda::join_stream(cuda::Gpu::get(device), memory, cuda::to_stream(stream));
}

void join_users(const py::object& object) {
  const Storage& storage = to_storage(object.ptr());
  const GilRelease release;
  cuda::join_users(cuda::Gpu::get(storage.device()), cuda::address_of(storage.backing().data));
}

// The handle of the context that has the memory.
std::uintptr_t context_of(std::uint64_t pointer) {
  const GilRelease release;
  const cuda::Gpu& gpu = cuda::Gpu::get(cuda::device_of(pointer));
  return reinterpret_cast<std::uintptr_t>(cuda::context_of(gpu, pointer));
}

py::tuple pointer_facts(std::uint64_t pointer, std::uint64_t size) {
  cuda::PointerAttributes facts;
  {
    const GilRelease release;
    facts = cuda::query_pointer(pointer, size);
  }
  return py::make_tuple(facts.device, facts.exportable, std::string(facts.kind));
}

// What the driver reports of a device to a process that does not use it.
py::dict describe_device(const cuda::Driver& driver, int number) {
  const std::string what = "describe cuda:" + std::to_string(number);
  const auto has = [&](int attribute) {
    return cuda::attribute_of(driver, number, attribute).value_or(0) > 0;
  };
  std::array<char, 128> name{};
  cuda::Uuid uuid{};
  driver.check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, number),
               what);
  driver.check(driver.cuDeviceGetUuid_v2(&uuid, number), what);
  py::list peers;
  for (int peer = 0; peer < cuda::Gpu::count(); ++peer) {
    if (peer != number && cuda::can_access_peer(driver, number, peer)) peers.append(peer);
  }
  return py::dict("name"_a = name.data(), "uuid"_a = cuda::to_text(uuid),
                  "virtual_memory"_a = cuda::shares_virtual_memory(driver, number),
                  "ipc"_a = cuda::has_ipc(driver, number),
                  "integrated"_a = has(cuda::kIsIntegrated), "mps"_a = has(cuda::kIsMpsClient),
                  "exclusive"_a = has(cuda::kComputeMode), "peers"_a = peers);
}

// (the driver's version, its path, a dict for each GPU). Creates no context.
py::tuple describe_devices() {
  const cuda::Driver& driver = cuda::Driver::get();
  py::list devices;
  for (int number = 0; number < cuda::Gpu::count(); ++number) {
    devices.append(describe_device(driver, number));
  }
  return py::make_tuple(driver.version(), driver.path(), devices);
}

}  // namespace

void add_device_functions(py::module_& module) {
  const auto unlocked = py::call_guard<GilRelease>();
  module.def("cuda_count", [] { return cuda::Gpu::count(); }, unlocked);
  module.def("cuda_describe_devices", &describe_devices);
  module.def("cuda_synchronize", &wait_for_device, py::arg("device"), py::arg("pointer") = 0);
  module.def(
      "cuda_refuse_stuck", [](int device) { cuda::refuse_stuck(cuda::Gpu::get(device)); },
      unlocked);
  module.def("cuda_order_streams", &order_streams);
  module.def("cuda_wait_for_stream", &wait_for_stream);
  module.def("cuda_join_stream", &join_stream);
  module.def("cuda_join_users", &join_users);
  module.def("cuda_device_of", &cuda::device_of, unlocked);
  module.def("cuda_context_of", &context_of);
  module.def("cuda_pointer_facts", &pointer_facts);
  module.def("cuda_is_exposed",
             [](const py::object& storage) { return to_storage(storage.ptr()).exposed.load(); });
  module.def("device_number",
             [](const py::object& storage) { return to_storage(storage.ptr()).device(); });
}

}  // namespace shmtensor::python
