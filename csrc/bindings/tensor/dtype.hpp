// The facts about a NumPy dtype that the core needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// NumPy's own dtypes in native byte order are one object each and travel as one byte. Any other
/// dtype without Python objects in it (structured, big-endian, ml_dtypes) travels pickled.
inline constexpr std::uint8_t kNoCode = 0;

struct Dtype {
  py::object object;
  std::int32_t item_size = 0;
  std::uint8_t code = kNoCode;
  std::vector<std::int64_t> inner;  ///< of a subarray dtype: sizes that follow the shape's
};

/// From any object that NumPy accepts as a dtype; None means float64. Made definite as
/// `numpy.empty` does: "S" becomes "S1", a subarray its base and `inner`. Throws TypeError for
/// objects that NumPy does not know, for dtypes that contain Python objects and for items without a
/// size.
[[nodiscard]] Dtype to_dtype(const py::object& value);

/// The code of a dtype, or kNoCode.
[[nodiscard]] std::uint8_t code_of_dtype(PyObject* dtype);

/// The dtype of a code in a handle. Throws StaleHandle if the code is unknown.
[[nodiscard]] Dtype dtype_of_code(std::uint8_t code);

/// Calls visit(T{}) for a number of 32 or 64 bits; returns a default value for other codes.
template <typename Visitor>
auto visit_number(std::uint8_t code, Visitor&& visit) -> decltype(visit(std::int32_t{})) {
  switch (code) {  // the order in dtype.cpp
    case 6:
      return visit(std::int32_t{});
    case 7:
      return visit(std::uint32_t{});
    case 8:
      return visit(std::int64_t{});
    case 9:
      return visit(std::uint64_t{});
    case 11:
      return visit(float{});
    case 12:
      return visit(double{});
    default:
      return {};
  }
}

}  // namespace shmtensor::python
