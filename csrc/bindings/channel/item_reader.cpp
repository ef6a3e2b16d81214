#include "bindings/channel/item_reader.hpp"

#include <cstring>

#include "base/error.hpp"
#include "bindings/transfer/tensor_view.hpp"

namespace shmtensor::python {
namespace {

[[noreturn]] void throw_damaged() { throw StaleHandle("a message of a queue is damaged"); }

}  // namespace

const std::byte* ItemReader::take(std::uint64_t size) {
  if (size > bytes_.size()) throw_damaged();
  const std::byte* at = bytes_.data();
  bytes_ = bytes_.subspan(size);
  return at;
}

std::span<const std::byte> ItemReader::take_sized() {
  const auto size = take_value<std::uint64_t>();
  return {take(size), size};
}

template <typename T>
T ItemReader::take_value() {
  T value{};
  std::memcpy(&value, take(sizeof value), sizeof value);
  return value;
}

py::object ItemReader::read_item(bool may_nest) {
  switch (take_value<ItemTag>()) {
    case ItemTag::none:
      return py::none();
    case ItemTag::yes:
      return py::bool_(true);
    case ItemTag::no:
      return py::bool_(false);
    case ItemTag::integer:
      return checked(PyLong_FromLongLong(take_value<long long>()));
    case ItemTag::real:
      return checked(PyFloat_FromDouble(take_value<double>()));
    case ItemTag::bytes:
      return to_bytes(take_sized());
    case ItemTag::text:
      return to_str(take_sized());
    case ItemTag::tensor:
      return read_tensor();
    case ItemTag::tuple:
      if (!may_nest) break;
      return read_sequence(PyTuple_New);
    case ItemTag::list:
      if (!may_nest) break;
      return read_sequence(PyList_New);
    case ItemTag::again:
      break;  // only in a sequence
  }
  throw_damaged();
}

py::object ItemReader::read_tensor() {
  const auto item = take_value<TensorItem>();
  const std::span<const std::byte> view(take(item.view), item.view);
  if (parcel_ == nullptr) throw_damaged();
  return tensor_from_view(parcel_->next_storage(item.strategy, item.access), view, nullptr);
}

// Each item takes a byte at least, which bounds the size of the sequence.
py::object ItemReader::read_sequence(PyObject* (*make)(Py_ssize_t)) {
  const auto count = take_value<std::uint64_t>();
  if (count > bytes_.size()) throw_damaged();
  py::object sequence = checked(make(static_cast<Py_ssize_t>(count)));
  PyObject** const items = PySequence_Fast_ITEMS(sequence.ptr());
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!bytes_.empty() && static_cast<ItemTag>(bytes_.front()) == ItemTag::again) {
      static_cast<void>(take(1));
      const auto first = take_value<std::uint64_t>();
      if (first >= i) throw_damaged();
      items[i] = Py_NewRef(items[first]);
    } else {
      items[i] = read_item(false).release().ptr();
    }
  }
  return sequence;
}

}  // namespace shmtensor::python
