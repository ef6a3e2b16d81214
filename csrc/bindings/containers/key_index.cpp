#include "bindings/containers/key_index.hpp"

#include <optional>
#include <string>

#include "base/error.hpp"
#include "bindings/support/initializer.hpp"

namespace shmtensor::python {
namespace {

py::object from_key(const Key& key) {
  if (const auto* number = std::get_if<std::int64_t>(&key)) return py::int_(*number);
  const auto text = std::get<std::string_view>(key);
  return to_str(std::as_bytes(std::span(text)));
}

/// Keeps the memory that it reads alive.
class Keys {
 public:
  explicit Keys(py::object view) : view_(std::move(view)) {
    if (!PyMemoryView_Check(view_.ptr())) throw py::type_error("keys are stored in a memoryview");
    const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view_.ptr());
    table_ = KeyTable(
        {static_cast<const std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)});
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return table_.size(); }

  /// The number of the value, or None.
  [[nodiscard]] py::object find(const py::object& object) const {
    const std::optional<Key> key = to_key(object);
    const std::optional<std::uint64_t> place = key ? table_.find(*key) : std::nullopt;
    if (!place) return py::none();
    return py::int_(table_.at(*place).value);
  }

  /// (key, number of the value)
  [[nodiscard]] py::tuple at(std::uint64_t place) const {
    if (place >= table_.size()) throw py::index_error("the dict has fewer keys");
    const KeyTable::Record record = table_.at(place);
    return py::make_tuple(from_key(record.key), record.value);
  }

 private:
  py::object view_;
  KeyTable table_;
};

// 1: added; 0: it was there already; -1: it cannot be a key.
int add_key(KeyTableBuilder& builder, const py::object& object, std::uint64_t value) {
  const std::optional<Key> key = to_key(object);
  if (!key) return -1;
  return builder.add(*key, value) ? 1 : 0;
}

}  // namespace

std::optional<Key> to_key(const py::object& object) {
  if (PyUnicode_Check(object.ptr())) {
    const auto text = utf8_of(object.ptr());
    return text ? std::optional<Key>(*text) : std::nullopt;
  }
  if (!PyIndex_Check(object.ptr())) return std::nullopt;
  const py::object number = checked(PyNumber_Index(object.ptr()));
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return std::nullopt;
  return value;
}

void add_key_index(py::module_& module) {
  py::class_<Keys>(module, "Keys")
      .def("__init__", initializer<Keys, py::object>(), kInitializer)
      .def("__len__", &Keys::size)
      .def("find", &Keys::find)
      .def("at", &Keys::at);
  py::class_<KeyTableBuilder>(module, "KeysBuilder")
      .def("__init__", initializer<KeyTableBuilder>(), kInitializer)
      .def("add", &add_key)
      .def("finish", [](const KeyTableBuilder& builder) { return py::bytes(builder.finish()); });
}

}  // namespace shmtensor::python
