#include "bindings/tensor/atomic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/tensor/atomic_operations.hpp"
#include "bindings/tensor/indexing.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/tensor.hpp"
#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "os/growing_pause.hpp"

namespace shmtensor::python {
namespace {

// --- on one element ---

// What serves the calls that `on_one` does not: shmtensor.atomic sets it, by operation.
std::array<PyObject*, kOperations.size()> g_general{};

// The arguments are a tensor, an index, and one or two values.
template <Operation kOperation>
inline constexpr Py_ssize_t kArguments = kOperation == Operation::load               ? 2
                                         : kOperation == Operation::compare_exchange ? 4
                                                                                     : 3;

// Null unless the index is of integers in range, one for each axis.
std::byte* element_at(const Tensor& tensor, std::byte* first, PyObject* index) noexcept {
  const bool is_tuple = PyTuple_Check(index) != 0;
  if ((is_tuple ? PyTuple_GET_SIZE(index) : 1) != tensor.dims) return nullptr;
  for (std::uint8_t i = 0; i < tensor.dims; ++i) {
    const IndexedAxis axis{tensor.shape()[i], tensor.strides()[i], nullptr};
    const auto number = to_integer(is_tuple ? PyTuple_GET_ITEM(index, i) : index);
    if (!number || !axis.has(*number)) return nullptr;
    first += axis.offset(*number);
  }
  return first;
}

// Nothing if NumPy must convert the object, or reject it.
template <typename T>
std::optional<T> to_value(PyObject* object) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (PyFloat_Check(object) != 0) return static_cast<T>(PyFloat_AS_DOUBLE(object));
  }
  const auto number = to_integer(object);
  if (!number) return {};
  if constexpr (std::is_integral_v<T>) {
    if (!std::in_range<T>(*number)) return {};
  }
  return static_cast<T>(*number);
}

template <Operation kOperation, typename Result>
PyObject* to_object(Result result) noexcept {
  if constexpr (kOperation == Operation::store) {
    return Py_NewRef(Py_None);
  } else if constexpr (std::is_same_v<Result, bool>) {
    return PyBool_FromLong(result);
  } else if constexpr (std::is_floating_point_v<Result>) {
    return PyFloat_FromDouble(result);
  } else if constexpr (std::is_signed_v<Result>) {
    return PyLong_FromLongLong(result);
  } else {
    return PyLong_FromUnsignedLongLong(result);
  }
}

// Returns null, without an error, if the general function must serve the call.
template <Operation kOperation>
PyObject* on_one(PyObject* const* arguments) {
  if (!is_tensor(arguments[0])) return nullptr;
  const auto& tensor = *reinterpret_cast<const Tensor*>(arguments[0]);
  const py::object held = storage_of(tensor);
  const Storage& storage = *as_storage(held);
  const bool is_frozen = tensor.read_only || storage.read_only();
  if (storage.device() >= 0 || (kOperation != Operation::load && is_frozen)) return nullptr;
  return visit_number(tensor.dtype_code, [&]<typename T>(T zero) -> PyObject* {
    if constexpr (kSupported<kOperation, T>) {
      std::byte* const first = storage.backing().data + tensor.offset;
      std::byte* const place = element_at(tensor, first, arguments[1]);
      if (place == nullptr || reinterpret_cast<std::uintptr_t>(place) % sizeof(T) != 0) {
        return nullptr;
      }
      constexpr Py_ssize_t kLast = kArguments<kOperation> - 1;
      const std::optional<T> value = kLast > 1 ? to_value<T>(arguments[kLast]) : zero;
      const std::optional<T> expected = kLast > 2 ? to_value<T>(arguments[2]) : zero;
      if (!value || !expected) return nullptr;
      return to_object<kOperation>(
          apply<kOperation>(*reinterpret_cast<T*>(place), *value, *expected));
    }
    return nullptr;
  });
}

template <Operation kOperation>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) noexcept {
  return guarded([&]() -> PyObject* {
    if (names == nullptr && count == kArguments<kOperation>) {
      PyObject* const done = on_one<kOperation>(arguments);
      if (done != nullptr || PyErr_Occurred() != nullptr) return done;
    }
    PyObject* const general = g_general[static_cast<std::size_t>(kOperation)];
    return PyObject_Vectorcall(general, arguments, static_cast<std::size_t>(count), names);
  });
}

auto g_functions = for_each_operation([]<Operation kOperation>() -> PyMethodDef {
  return {kOperations[static_cast<std::size_t>(kOperation)], method(call<kOperation>),
          METH_FASTCALL | METH_KEYWORDS, nullptr};
});

// The function that calls the general one of its name unless it can serve a call itself. Both
// arguments stay until the process ends.
py::object atomic_function(const py::object& general, const py::str& document) {
  const auto name = general.attr("__name__").cast<std::string>();
  const auto number = operation_number(name);
  if (!number) throw py::value_error("no such operation: " + name);
  const char* const text = PyUnicode_AsUTF8(document.ptr());
  if (text == nullptr) throw py::error_already_set();
  g_functions[*number].ml_doc = text;
  py::object(document).release();
  g_general[*number] = py::object(general).release().ptr();
  const py::object module = general.attr("__module__");
  return checked(PyCFunction_NewEx(&g_functions[*number], nullptr, module.ptr()));
}

// --- at arrays of indices ---

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

// --- waiting for a change, whoever writes it, and however ---

constexpr std::uint64_t kSpinTime = 20'000;  // nanoseconds
constexpr double kLongestWait = 1e9;         // seconds
// A signal that arrives just before a sleep does not end it.
constexpr int kSleepsWithoutSignals = 50;

template <typename Changed>
bool wait_until(Changed&& changed, double timeout) {
  if (changed()) return true;
  const std::uint64_t begin = monotonic_nanoseconds();
  const double seconds = std::fmin(std::fmax(timeout, 0), kLongestWait);
  const std::uint64_t end = begin + static_cast<std::uint64_t>(seconds * 1e9);
  const std::uint64_t spin_end = std::min(begin + kSpinTime, end);
  GrowingPause pause;
  for (;;) {
    {
      const GilRelease release;
      for (int sleeps = 0; sleeps < kSleepsWithoutSignals;) {
        if (changed()) return true;
        const std::uint64_t now = monotonic_nanoseconds();
        if (now >= end) return false;
        if (now < spin_end) {
          pause_processor();
        } else if (pause.sleep(end - now)) {
          ++sleeps;
        } else {
          break;
        }
      }
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// One aligned element, and one value of the same dtype; `timeout` is in seconds.
bool wait_for_change(const py::array& element, const py::array& old, double timeout) {
  const auto* const place = static_cast<const std::byte*>(element.data());
  return visit_number(code_of_dtype(element.dtype().ptr()), [&]<typename T>(T value) {
    std::memcpy(&value, old.data(), sizeof value);
    return wait_until([&] { return differs<T>(place, value); }, timeout);
  });
}

}  // namespace

void add_atomic(py::module_& module) {
  module.def("atomic_function", &atomic_function);
  module.def("apply_to_many", &apply_to_many);
  module.def("wait_for_change", &wait_for_change);
}

}  // namespace shmtensor::python
