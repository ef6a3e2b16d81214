#include "bindings/channel/item_writer.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "bindings/channel/first_indexes.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/transfer/tensor_view.hpp"

namespace shmtensor::python {
namespace {

/// Return true for an object that the pickler, too, sends once if it occurs again.
bool is_sent_once(PyObject* item) {
  return PyUnicode_CheckExact(item) || PyBytes_CheckExact(item) || is_tensor(item);
}

/// Return true if all items are of types that need no pickle. Asked before the first item is
/// written, since a ticket is issued for each tensor.
bool may_be_flat(PyObject* items) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, i);
    if (item != Py_None && !PyBool_Check(item) && !PyLong_CheckExact(item) &&
        !PyFloat_CheckExact(item) && !is_sent_once(item)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_plain(const Tensor& tensor, const Storage& storage, const Session& session) {
  const Backing& backing = storage.backing();
  return tensor.dtype_code != kNoCode && backing.kind == Backing::Kind::block &&
         backing.device < 0 && backing.arena->memory().id() == session.id();
}

Access reader_access(const Tensor& tensor, const Storage& storage) noexcept {
  return tensor.read_only ? Access::read_only : storage.backing().access;
}

bool ItemWriter::write(PyObject* object) {
  if (PyTuple_CheckExact(object)) return write_sequence(ItemTag::tuple, object);
  if (!PyList_CheckExact(object)) return write_flat(object);
  // A copy: another thread may change the list.
  const py::object items = checked(PyList_AsTuple(object));
  return write_sequence(ItemTag::list, items.ptr());
}

bool ItemWriter::write_flat(PyObject* object) {
  if (object == Py_None) return append_tag(ItemTag::none);
  if (object == Py_True) return append_tag(ItemTag::yes);
  if (object == Py_False) return append_tag(ItemTag::no);
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0 && append_value(ItemTag::integer, value);
  }
  if (PyFloat_CheckExact(object)) return append_value(ItemTag::real, PyFloat_AS_DOUBLE(object));
  if (PyBytes_CheckExact(object)) return append_sized(ItemTag::bytes, bytes_of_object(object));
  if (PyUnicode_CheckExact(object)) {
    const auto text = utf8_of(object);
    return text && append_sized(ItemTag::text, std::as_bytes(std::span(*text)));
  }
  return is_tensor(object) && write_tensor(*reinterpret_cast<const Tensor*>(object));
}

bool ItemWriter::write_tensor(const Tensor& tensor) {
  const py::object object = storage_of(tensor);
  const Storage& storage = *as_storage(object);
  if (!is_plain(tensor, storage, session_)) return false;
  const Backing& backing = storage.backing();
  Arena& arena = *backing.arena;
  tickets_.add(arena, backing.block, arena.generation(backing.block));
  const ViewBytes view(tensor);
  append_value(ItemTag::tensor,
               TensorItem{.strategy = static_cast<std::uint8_t>(arena.segment().strategy()),
                          .access = reader_access(tensor, storage),
                          .view = static_cast<std::uint16_t>(view.get().size())});
  append(view.get().data(), view.get().size());
  return true;
}

bool ItemWriter::write_sequence(ItemTag tag, PyObject* items) {
  if (!may_be_flat(items)) return false;
  const auto count = static_cast<std::uint64_t>(PyTuple_GET_SIZE(items));
  bytes_.reserve(bytes_.size() + (count + 1) * (sizeof tag + sizeof count));
  append_value(tag, count);
  FirstIndexes first(items);
  for (std::uint64_t i = 0; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, static_cast<Py_ssize_t>(i));
    const std::uint64_t found = is_sent_once(item) ? first.add(i) : i;
    if (found != i) {
      append_value(ItemTag::again, found);
    } else if (!write_flat(item)) {
      return false;
    }
  }
  return true;
}

void ItemWriter::append(const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), from, from + size);
}

bool ItemWriter::append_tag(ItemTag tag) {
  append(&tag, sizeof tag);
  return true;
}

template <typename Value>
bool ItemWriter::append_value(ItemTag tag, const Value& value) {
  // One insertion: a list may have many numbers.
  std::array<std::byte, sizeof tag + sizeof value> both;
  std::memcpy(both.data(), &tag, sizeof tag);
  std::memcpy(both.data() + sizeof tag, &value, sizeof value);
  append(both.data(), both.size());
  return true;
}

bool ItemWriter::append_sized(ItemTag tag, std::span<const std::byte> content) {
  append_value(tag, std::uint64_t{content.size()});
  append(content.data(), content.size());
  return true;
}

}  // namespace shmtensor::python
