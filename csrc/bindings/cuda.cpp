#include "bindings/cuda.hpp"

#include <string>
#include <vector>

#include "bindings/gil.hpp"
#include "bindings/storage.hpp"
#include "bindings/tensor.hpp"
#include "cuda/copy.hpp"
#include "cuda/event.hpp"
#include "cuda/in_place.hpp"

namespace shmtensor::python {
namespace {

using Dims = std::vector<std::int64_t>;

const Tensor& device_tensor(const py::object& object) {
  if (!is_tensor(object.ptr())) throw py::type_error("not a tensor");
  const Tensor& tensor = *reinterpret_cast<Tensor*>(object.ptr());
  if (reinterpret_cast<Storage*>(tensor.storage)->device() < 0) {
    throw py::type_error("the tensor does not lie on a GPU");
  }
  return tensor;
}

const Storage& storage_of(const Tensor& tensor) {
  return *reinterpret_cast<Storage*>(tensor.storage);
}

void require_writable(const Tensor& tensor) {
  if (tensor.read_only || storage_of(tensor).read_only()) {
    throw py::value_error("assignment destination is read-only");
  }
}

cuda::Side side_of(const Tensor& tensor) {
  return {reinterpret_cast<std::uint64_t>(storage_of(tensor).backing().data + tensor.offset),
          tensor.strides(), true};
}

Dims to_strides(const py::tuple& values) {
  Dims dims;
  for (const py::handle& value : values) dims.push_back(value.cast<std::int64_t>());
  return dims;
}

const cuda::Gpu& gpu_of(const Tensor& tensor) {
  return cuda::Gpu::get(storage_of(tensor).device());
}

// Our copies are in a stream of their own: what other libraries have started on the memory, in
// streams that nobody knows here, is done before.
void settle(const Tensor& tensor) {
  if (storage_of(tensor).exposed.load()) gpu_of(tensor).synchronize();
}

// Strides and an address of somebody else's array, which the caller keeps alive.
void copy_to_device(const py::object& to, std::uint64_t address, const py::tuple& steps,
                    bool on_device) {
  const Dims strides = to_strides(steps);
  const Tensor& tensor = device_tensor(to);
  require_writable(tensor);
  if (strides.size() != tensor.dims) throw py::value_error("the shapes differ");
  const GilRelease release;
  settle(tensor);
  cuda::copy(gpu_of(tensor), side_of(tensor), {address, strides, on_device}, tensor.shape(),
             tensor.item_size);
}

void copy_to_host(const py::object& from, std::uint64_t address, const py::tuple& steps) {
  const Dims strides = to_strides(steps);
  const Tensor& tensor = device_tensor(from);
  if (strides.size() != tensor.dims) throw py::value_error("the shapes differ");
  const GilRelease release;
  settle(tensor);
  cuda::copy(gpu_of(tensor), {address, strides, false}, side_of(tensor), tensor.shape(),
             tensor.item_size);
}

// Tensors of one shape and dtype, perhaps on two devices.
void copy_on_device(const py::object& to, const py::object& from) {
  const Tensor& target = device_tensor(to);
  const Tensor& source = device_tensor(from);
  require_writable(target);
  if (source.dims != target.dims) throw py::value_error("the shapes differ");
  const GilRelease release;
  settle(target);
  settle(source);
  cuda::copy(gpu_of(target), side_of(target), side_of(source), target.shape(), target.item_size);
}

void fill_contiguous(const py::object& to, const py::bytes& item) {
  const Tensor& tensor = device_tensor(to);
  require_writable(tensor);
  const auto bytes = static_cast<std::string>(item);
  if (!tensor.contiguous || bytes.size() != static_cast<std::size_t>(tensor.item_size)) {
    throw py::value_error("only a tensor in C order is filled so");
  }
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape()) count *= static_cast<std::uint64_t>(size);
  const GilRelease release;
  settle(tensor);
  cuda::fill(gpu_of(tensor), side_of(tensor).start,
             reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), count);
}

void order_streams(int device, std::uint64_t first, std::uint64_t then) {
  const GilRelease release;
  cuda::order(cuda::Gpu::get(device), reinterpret_cast<cuda::StreamHandle>(first),
              reinterpret_cast<cuda::StreamHandle>(then));
}

void wait_for_stream(int device, std::uint64_t stream) {
  const GilRelease release;
  const cuda::Gpu& gpu = cuda::Gpu::get(device);
  const cuda::Current current(gpu);
  gpu.driver().check(gpu.driver().cuStreamSynchronize(reinterpret_cast<cuda::StreamHandle>(stream)),
                     "wait for a stream of cuda:" + std::to_string(device));
}

py::tuple pointer_facts(std::uint64_t pointer) {
  cuda::PointerFacts facts;
  {
    const GilRelease release;
    facts = cuda::facts_of(pointer);
  }
  return py::make_tuple(facts.device, facts.base, facts.base_size, facts.exportable,
                        std::string(facts.kind));
}

}  // namespace

void add_cuda(py::module_& module) {
  const auto unlocked = py::call_guard<GilRelease>();
  module.def("cuda_count", [] { return cuda::Gpu::count(); }, unlocked);
  module.def(
      "cuda_uuid", [](int device) { return cuda::to_text(cuda::Gpu::get(device).uuid()); },
      unlocked);
  module.def(
      "cuda_synchronize", [](int device) { cuda::Gpu::get(device).synchronize(); }, unlocked);
  module.def("cuda_new_storage", [](std::uint64_t size, int device, bool zeroed) {
    return new_device_storage(size, device, zeroed);
  });
  module.def("cuda_copy_to_device", &copy_to_device);
  module.def("cuda_copy_to_host", &copy_to_host);
  module.def("cuda_copy", &copy_on_device);
  module.def("cuda_fill", &fill_contiguous);
  module.def("cuda_order_streams", &order_streams);
  module.def("cuda_wait_for_stream", &wait_for_stream);
  module.def("cuda_pointer_facts", &pointer_facts);
  module.def("cuda_is_exposed", [](const py::object& storage) {
    if (!is_storage(storage.ptr())) throw py::type_error("not a storage");
    return as_storage(storage)->exposed.load();
  });
  module.def("device_number", [](const py::object& storage) {
    if (!is_storage(storage.ptr())) throw py::type_error("not a storage");
    return as_storage(storage)->device();
  });
}

}  // namespace shmtensor::python
