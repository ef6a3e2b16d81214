#include "bindings/cuda/copy.hpp"

#include <algorithm>
#include <string>

#include "bindings/storage/lifetime.hpp"
#include "bindings/support/device_wait.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"
#include "cuda/contexts.hpp"
#include "cuda/copy.hpp"
#include "cuda/peer_access.hpp"

namespace shmtensor::python {
namespace {

/// A tensor on a GPU and its storage, which stays allocated in the meantime.
class DeviceTensor {
 public:
  explicit DeviceTensor(const py::object& object) {
    tensor_ = &to_tensor(object.ptr());
    storage_ = storage_of(*tensor_);
    if (storage().device() < 0) throw py::type_error("the tensor is not on a GPU");
  }

  [[nodiscard]] const Tensor* operator->() const noexcept { return tensor_; }
  [[nodiscard]] const Storage& storage() const noexcept { return *as_storage(storage_); }

 private:
  const Tensor* tensor_;
  py::object storage_;
};

void require_writable(const DeviceTensor& tensor) {
  if (tensor->read_only || tensor.storage().read_only()) {
    throw py::value_error("assignment destination is read-only");
  }
}

cuda::CopySide side_of(const DeviceTensor& tensor) {
  return {reinterpret_cast<std::uint64_t>(tensor.storage().backing().data + tensor->offset),
          tensor->strides(), true};
}

Dims to_strides(const py::tuple& values) {
  Dims dims;
  for (const py::handle& value : values) dims.push_back(value.cast<std::int64_t>());
  return dims;
}

const cuda::Gpu& gpu_of(const DeviceTensor& tensor) {
  return cuda::Gpu::get(tensor.storage().device());
}

// Our copies run in a stream of their own. Work that other libraries have started on the memory, in
// streams that are unknown here, ends before.
void wait_for_others(const DeviceTensor& tensor) {
  if (!tensor.storage().exposed.load()) return;
  wait_for_device(tensor.storage().device(), cuda::address_of(tensor.storage().backing().data));
}

// Throws ValueError if the shapes differ.
void require_same_shape(const DeviceTensor& to, const DeviceTensor& from) {
  if (!std::ranges::equal(to->shape(), from->shape())) throw py::value_error("the shapes differ");
}

cuda::CopySide host_side(const DeviceTensor& tensor, std::uint64_t address, const Dims& strides) {
  if (strides.size() != tensor->dims) throw py::value_error("the shapes differ");
  return {address, strides, false};
}

// From an array in host memory, which the caller keeps alive: its address and strides.
void copy_to_device(const py::object& to, std::uint64_t address, const py::tuple& steps) {
  const Dims strides = to_strides(steps);
  const DeviceTensor tensor(to);
  require_writable(tensor);
  const cuda::CopySide from = host_side(tensor, address, strides);
  wait_for_others(tensor);
  const GilRelease release;
  cuda::copy(gpu_of(tensor), side_of(tensor), from, tensor->shape(), tensor->item_size);
}

void copy_to_host(const py::object& from, std::uint64_t address, const py::tuple& steps) {
  const Dims strides = to_strides(steps);
  const DeviceTensor tensor(from);
  const cuda::CopySide to = host_side(tensor, address, strides);
  wait_for_others(tensor);
  const GilRelease release;
  cuda::copy(gpu_of(tensor), to, side_of(tensor), tensor->shape(), tensor->item_size);
}

// Tensors of one shape and dtype that do not overlap, perhaps on two devices.
void copy_on_device(const py::object& to, const py::object& from) {
  const DeviceTensor target(to);
  const DeviceTensor source(from);
  require_writable(target);
  require_same_shape(target, source);
  wait_for_others(target);
  wait_for_others(source);
  const GilRelease release;
  cuda::copy(gpu_of(target), side_of(target), side_of(source), target->shape(), target->item_size);
}

std::uint64_t count_calls(const py::object& to, const py::object& from) {
  const DeviceTensor target(to);
  const DeviceTensor source(from);
  require_same_shape(target, source);
  return cuda::count_calls(side_of(target), side_of(source), target->shape(), target->item_size);
}

// Return true if one call can copy between the two: both are on one GPU, or the target's GPU can
// access the source.
bool can_copy(const py::object& to, const py::object& from) {
  const DeviceTensor target(to);
  const DeviceTensor source(from);
  if (target.storage().device() == source.storage().device()) return true;
  const GilRelease release;
  return cuda::let_access(target.storage().device(), side_of(source).start);
}

struct ByteRange {
  std::uint64_t low;
  std::uint64_t high;
};
// The bytes from the first element to the last one, counted from the storage's first.
ByteRange range_of(const DeviceTensor& tensor) {
  std::int64_t low = tensor->offset;
  std::int64_t high = tensor->offset + tensor->item_size;
  for (std::size_t i = 0; i < tensor->dims; ++i) {
    const std::int64_t reach = (tensor->shape()[i] - 1) * tensor->strides()[i];
    (reach < 0 ? low : high) += reach;
  }
  return {static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high)};
}

// Return true if a copy needs memory in between: the two have no context in common, or may have
// bytes in common. A block can have two addresses here, one of which is read-only.
bool needs_clone(const py::object& a, const py::object& b) {
  const DeviceTensor one(a);
  const DeviceTensor other(b);
  if (!cuda::have_common_context(gpu_of(one), side_of(one).start, side_of(other).start))
    return true;
  ByteRange first = range_of(one);
  ByteRange second = range_of(other);
  const Backing& mine = one.storage().backing();
  const Backing& its = other.storage().backing();
  if (mine.arena == nullptr || mine.arena != its.arena || mine.block != its.block) {
    const auto move = [](ByteRange& range, const std::byte* start) {
      range.low += reinterpret_cast<std::uint64_t>(start);
      range.high += reinterpret_cast<std::uint64_t>(start);
    };
    move(first, mine.data);
    move(second, its.data);
  }
  return first.low < second.high && second.low < first.high;
}

// A storage over memory of another library that only this process sees. The caller keeps the memory
// alive.
py::object borrow_on_device(std::uint64_t pointer, std::uint64_t size, int device) {
  return new_object(size, {.data = reinterpret_cast<std::byte*>(pointer),
                           .kind = Backing::Kind::borrowed,
                           .device = static_cast<std::int16_t>(device)});
}

void fill_contiguous(const py::object& to, const py::bytes& item) {
  const DeviceTensor tensor(to);
  require_writable(tensor);
  const auto bytes = static_cast<std::string>(item);
  if (!tensor->contiguous || bytes.size() != static_cast<std::size_t>(tensor->item_size)) {
    throw py::value_error("only a tensor in C order can be filled with an item of its size");
  }
  const auto count = static_cast<std::uint64_t>(element_count(tensor->shape()));
  wait_for_others(tensor);
  const GilRelease release;
  cuda::fill(gpu_of(tensor), side_of(tensor).start,
             reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), count);
}

}  // namespace

void add_device_copies(py::module_& module) {
  module.def("cuda_copy_to_device", &copy_to_device);
  module.def("cuda_copy_to_host", &copy_to_host);
  module.def("cuda_copy", &copy_on_device);
  module.def("cuda_count_calls", &count_calls);
  module.def("cuda_can_copy", &can_copy);
  module.def("cuda_needs_clone", &needs_clone);
  module.def("cuda_borrow", &borrow_on_device);
  module.def("cuda_fill", &fill_contiguous);
}

}  // namespace shmtensor::python
