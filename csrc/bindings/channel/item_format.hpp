// Simple objects, and tensors among them, as bytes in a message: without the pickler.
#pragma once

#include <cstdint>

#include "os/mapping.hpp"

namespace shmtensor::python {

/// The first byte of an item. A number of 8 bytes follows for integer and real; a length of 8
/// bytes, and the content, for bytes and text; a count of 8 bytes, and the items, for a tuple and a
/// list. A tensor is a TensorItem and a view. `again` is followed by the index, of 8 bytes, of an
/// earlier item of the same sequence, and is that object.
enum class ItemTag : std::uint8_t {
  none = 0,
  yes = 1,
  no = 2,
  integer = 3,
  real = 4,
  bytes = 5,
  text = 6,
  tuple = 7,
  list = 8,
  tensor = 9,
  again = 10,
};

/// What a TensorReference needs besides a record. The nth tensor of a message has its nth record.
struct TensorItem {
  std::uint8_t strategy;  ///< of its arena
  Access access;          ///< with which the reader maps the block
  std::uint16_t view;     ///< bytes that follow
};
static_assert(sizeof(TensorItem) == 4);

}  // namespace shmtensor::python
