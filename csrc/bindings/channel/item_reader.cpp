#include "bindings/channel/item_reader.hpp"

#include <cstring>

#include "base/error.hpp"

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
    case ItemTag::bytes: {
      const auto size = take_value<std::uint64_t>();
      const auto* at = reinterpret_cast<const char*>(take(size));
      return checked(PyBytes_FromStringAndSize(at, static_cast<Py_ssize_t>(size)));
    }
    case ItemTag::text: {
      const auto size = take_value<std::uint64_t>();
      const auto* at = reinterpret_cast<const char*>(take(size));
      return checked(PyUnicode_DecodeUTF8(at, static_cast<Py_ssize_t>(size), nullptr));
    }
    case ItemTag::tuple:
      if (may_nest) return read_tuple();
      break;
  }
  throw_damaged();
}

// Each item takes a byte at least, which bounds the size of the tuple.
py::object ItemReader::read_tuple() {
  const auto count = take_value<std::uint64_t>();
  if (count > bytes_.size()) throw_damaged();
  py::object items = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::uint64_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i), read_item(false).release().ptr());
  }
  return items;
}

}  // namespace shmtensor::python
