// Shapes and strides: read from Python, checked, computed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

inline constexpr std::size_t kMaxDims = 64;  // NumPy's

using Dims = std::vector<std::int64_t>;

/// repr(value).
[[nodiscard]] std::string repr(PyObject* value);

[[nodiscard]] py::object to_tuple(std::span<const std::int64_t> values);
[[nodiscard]] std::string to_text(std::span<const std::int64_t> values);

/// An integer, as NumPy accepts it. Throws TypeError, ValueError, with `name` in the text.
[[nodiscard]] std::int64_t to_number(PyObject* value, const char* name);

/// One number, or a sequence of numbers, as NumPy accepts them.
[[nodiscard]] Dims to_dims(PyObject* value, const char* name);

inline void append(Dims& dims, const Dims& more) {
  dims.insert(dims.end(), more.begin(), more.end());
}

[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> shape) noexcept;

/// Bytes of a C-ordered array. Throws ValueError if there are too many dimensions, one is
/// negative, or the product does not fit.
std::int64_t checked_bytes(std::span<const std::int64_t> shape, std::int64_t item_size);

/// Writes the strides of a C-ordered array, one for each dimension.
void c_strides(std::span<const std::int64_t> shape, std::int64_t item_size,
               std::int64_t* strides) noexcept;

/// Return true if in C order. Strides of dimensions that have at most one element do not matter.
[[nodiscard]] bool is_contiguous(std::span<const std::int64_t> shape,
                                 std::span<const std::int64_t> strides,
                                 std::int64_t item_size) noexcept;

/// Return true if the bytes of all elements are in [0, limit). Computed in 128 bits, which cannot
/// overflow.
[[nodiscard]] bool inside(std::span<const std::int64_t> shape,
                          std::span<const std::int64_t> strides, std::int64_t offset,
                          std::int64_t item_size, std::uint64_t limit) noexcept;

}  // namespace shmtensor::python
