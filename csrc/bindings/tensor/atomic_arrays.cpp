#include "bindings/tensor/atomic_arrays.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/support/gil.hpp"
#include "bindings/tensor/atomic_operations.hpp"
#include "bindings/tensor/dtype.hpp"

namespace shmtensor::python {
namespace {

constexpr std::int64_t kMany = 4096;  // elements: the GIL is released

using Loop = std::optional<OutsideIndex> (*)(std::byte*, std::span<const IndexedAxis>, std::int64_t,
                                             const Operands&);

Loop loop_of(const std::string& operation, std::uint8_t dtype_code) {
  const auto number = operation_number(operation);
  const Loop loop = visit_number(dtype_code, [&]<typename T>(T) -> Loop {
    constexpr auto kLoops = for_each_operation([]<Operation kOperation>() -> Loop {
      if constexpr (kSupported<kOperation, T>) return apply_all<kOperation, T>;
      return nullptr;
    });
    return number ? kLoops[*number] : nullptr;
  });
  if (loop == nullptr) throw py::type_error("no such operation");
  return loop;
}

const std::byte* bytes_of(const py::array& array) {
  return static_cast<const std::byte*>(array.data());
}

std::int64_t step_of(const py::array& operands) {
  return operands.ndim() == 0 ? 0 : operands.itemsize();
}

// shmtensor.atomic has checked everything but the range of the indices. The elements are aligned,
// and writable unless they are loaded. All other arrays are in C order: one of int64 for each axis,
// with `count` indices; one value, or `count`; the same of expected values; `count` results, or
// None.
void apply_to_many(const std::string& operation, const py::array& elements,
                   const py::tuple& indices, std::int64_t count, const py::array& values,
                   const py::array& expected, const py::object& results) {
  const Loop loop = loop_of(operation, code_of_dtype(elements.dtype().ptr()));
  std::vector<IndexedAxis> axes;
  for (py::ssize_t i = 0; i < elements.ndim(); ++i) {
    const auto along = indices[static_cast<std::size_t>(i)].cast<py::array>();
    axes.push_back({elements.shape(i), elements.strides(i), bytes_of(along)});
  }
  Operands operands{bytes_of(values), step_of(values), bytes_of(expected), step_of(expected),
                    nullptr};
  if (!results.is_none()) {
    operands.results = static_cast<std::byte*>(results.cast<py::array>().mutable_data());
  }
  std::optional<OutsideIndex> outside;
  without_gil_if(count >= kMany, [&] {
    outside = loop(const_cast<std::byte*>(bytes_of(elements)), axes, count, operands);
  });
  if (outside) {
    throw py::index_error("index " + std::to_string(outside->index) +
                          " is out of bounds for axis " + std::to_string(outside->axis) +
                          " with size " + std::to_string(axes[outside->axis].size));
  }
}

}  // namespace

void add_atomic_arrays(py::module_& module) { module.def("apply_to_many", &apply_to_many); }

}  // namespace shmtensor::python
