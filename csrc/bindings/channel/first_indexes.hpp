// Objects that occur more than once in a sequence.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// A hash table of the objects of a tuple, by identity.
/// Threads: one.
class FirstIndexes {
 public:
  /// The tuple must outlive this object.
  explicit FirstIndexes(PyObject* items) noexcept : items_(items) {}

  /// Adds the item at an index. Returns the index of the first item that is the same object.
  std::size_t add(std::size_t index) {
    if (slots_.empty()) {
      slots_.resize(std::bit_ceil(2 * static_cast<std::size_t>(PyTuple_GET_SIZE(items_))));
    }
    PyObject* const object = item(index);
    for (std::size_t i = hash(object);; ++i) {
      std::size_t& slot = slots_[i & (slots_.size() - 1)];
      if (slot == 0) slot = index + 1;
      if (item(slot - 1) == object) return slot - 1;
    }
  }

 private:
  [[nodiscard]] PyObject* item(std::size_t index) const noexcept {
    return PyTuple_GET_ITEM(items_, static_cast<Py_ssize_t>(index));
  }
  // Addresses are multiples of 16; the upper half of the product depends on all of their bits.
  static std::size_t hash(PyObject* object) noexcept {
    return (reinterpret_cast<std::uintptr_t>(object) * 0x9E3779B97F4A7C15u) >> 32;
  }

  PyObject* const items_;
  std::vector<std::size_t> slots_;  ///< index plus one; 0: free. At most half of them are used.
};

}  // namespace shmtensor::python
