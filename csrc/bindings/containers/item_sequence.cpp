#include "bindings/containers/item_sequence.hpp"

#include <structmember.h>

#include <array>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/read_once.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/objects.hpp"
#include "bindings/support/python.hpp"
#include "containers/item_table.hpp"

namespace shmtensor::python {
namespace {

/// The types of plain items; python/shmtensor/containers/_writer.py has the same numbers.
enum class ItemKind : std::uint64_t { pickle = 0, bytes = 1, text = 2 };

PyObject* g_loads = nullptr;  // pickle.loads
PyObject* g_buffers = nullptr;
PyObject* g_select = nullptr;
PyObject* g_nested = nullptr;
PyObject* g_fortran = nullptr;
PyObject* g_dtypes = nullptr;  // bytes to dtype

/// The Python object. Constant once it is made, so threads need no lock.
struct Items {
  PyObject_HEAD PyObject* owners;  // of the pieces
  PyObject* views;                 // read-only memoryviews of them
  PyObject* selection;             // a memoryview of int64, or null
  const std::int64_t* selected;
  std::int64_t selected_count;
  std::int64_t first;  // of the selection, or else of the table
  std::int64_t step;
  std::int64_t length;
  ItemTable table;
};

Items* as_items(PyObject* self) noexcept { return reinterpret_cast<Items*>(self); }

std::span<const std::byte> bytes_of(PyObject* view) noexcept {
  const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view);
  return {static_cast<const std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)};
}

py::object bytes_view(PyObject* exporter) {
  const py::object plain = checked(PyMemoryView_FromObject(exporter));
  const Py_buffer* buffer = PyMemoryView_GET_BUFFER(plain.ptr());
  if (PyBuffer_IsContiguous(buffer, 'C') == 0) throw py::value_error("a piece is not contiguous");
  return plain.attr("cast")("B").attr("toreadonly")();
}

// --- one item ---

PyObject* load(PyObject* bytes, PyObject* buffers) {
  const std::array<PyObject*, 3> arguments{nullptr, bytes, buffers};
  PyObject* result = PyObject_Vectorcall(g_loads, &arguments[1], 1 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                         buffers != nullptr ? g_buffers : nullptr);
  if (result != nullptr) return result;
  // Truncated or overwritten. Other errors are those of the items' classes, and are passed on.
  py::error_already_set cause;
  const py::object damaged = py::module_::import("pickle").attr("UnpicklingError");
  if (!cause.matches(damaged) && !cause.matches(PyExc_EOFError)) {
    cause.restore();
    return nullptr;
  }
  const py::object error = py::module_::import("shmtensor.errors").attr("CorruptDataError");
  py::raise_from(cause, error.ptr(),
                 "cannot read an item of a shared list or dict: it is not a pickle; its memory was "
                 "damaged, or holds other data. Rebuild the container");
  return nullptr;
}

py::object slice_of(PyObject* view, std::uint64_t begin, std::uint64_t size) {
  return checked(PySequence_GetSlice(view, static_cast<Py_ssize_t>(begin),
                                     static_cast<Py_ssize_t>(begin + size)));
}

PyObject* load_buffered(PyObject* view, const Item& item) {
  const BufferedItem parsed = BufferedItem::parse(item.bytes);
  const py::object buffers = checked(PyTuple_New(static_cast<Py_ssize_t>(parsed.buffers.size())));
  Py_ssize_t index = 0;
  for (const BufferedItem::Buffer& buffer : parsed.buffers) {
    PyTuple_SET_ITEM(buffers.ptr(), index++,
                     slice_of(view, item.offset + buffer.offset, buffer.size).release().ptr());
  }
  return load(to_bytes(parsed.pickle).ptr(), buffers.ptr());
}

// Return true if NumPy would follow elements as pointers. Not `hasobject` alone: it is a flag of
// its own in a pickle, which the damage may have missed.
bool has_pointers(const py::object& dtype) {
  if (dtype.attr("hasobject").cast<bool>() || dtype.attr("char").cast<char>() == 'O') return true;
  const py::object base = dtype.attr("base");
  if (!base.is(dtype) && has_pointers(base)) return true;
  const py::object fields = dtype.attr("fields");
  if (fields.is_none()) return false;
  for (const py::handle& field : fields.attr("values")()) {
    if (has_pointers(py::object(field[py::int_(0)]))) return true;
  }
  return false;
}

constexpr Py_ssize_t kMostDtypes = 1024;

// Few dtypes differ in most processes, so the first ones are kept under the bytes that describe
// them, and never removed: another thread may use them. Where each item has fields of its own, the
// others are made again.
PyObject* dtype_of(std::span<const std::byte> written) {
  const py::object key = to_bytes(written);
  if (PyObject* known = PyDict_GetItemWithError(g_dtypes, key.ptr())) return Py_NewRef(known);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  const py::object made = checked(load(key.ptr(), nullptr));
  if (PyObject_TypeCheck(made.ptr(), py::detail::npy_api::get().PyArrayDescr_Type_) == 0 ||
      has_pointers(made)) {
    throw CorruptData(
        "cannot read an array of a shared list or dict: its type is damaged. Rebuild "
        "the container");
  }
  if (PyDict_Size(g_dtypes) >= kMostDtypes) return Py_NewRef(made.ptr());
  return checked(Py_XNewRef(PyDict_SetDefault(g_dtypes, key.ptr(), made.ptr()))).release().ptr();
}

// numpy.ndarray(shape, dtype, buffer, offset, strides, order): NumPy checks that it fits.
PyObject* load_array(PyObject* view, const Item& item) {
  const ArrayItem parsed = ArrayItem::parse(item.bytes);
  const py::object dtype = py::reinterpret_steal<py::object>(dtype_of(parsed.type));
  const auto dims = static_cast<Py_ssize_t>(parsed.shape.size() / 8);
  const py::object shape = checked(PyTuple_New(dims));
  for (Py_ssize_t i = 0; i < dims; ++i) {
    std::int64_t extent = 0;
    std::memcpy(&extent, parsed.shape.data() + i * 8, sizeof extent);
    PyTuple_SET_ITEM(shape.ptr(), i, checked(PyLong_FromLongLong(extent)).release().ptr());
  }
  const py::object offset = checked(PyLong_FromUnsignedLongLong(item.offset + parsed.elements));
  const std::array<PyObject*, 7> arguments{nullptr,      shape.ptr(), dtype.ptr(), view,
                                           offset.ptr(), Py_None,     g_fortran};
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(py::detail::npy_api::get().PyArray_Type_),
                             &arguments[1],
                             (parsed.fortran ? 6 : 4) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

PyObject* load_pickle(const Item& item) {
  // A copy of a few hundred bytes costs less than a memoryview of them.
  return load(to_bytes(item.bytes).ptr(), nullptr);
}

PyObject* load_plain(const Items& items, const Item& item) {
  switch (static_cast<ItemKind>(items.table.kind())) {
    case ItemKind::bytes:
      return to_bytes(item.bytes).release().ptr();
    case ItemKind::text:
      return to_str(item.bytes, "surrogatepass").release().ptr();
    case ItemKind::pickle:
      break;
  }
  return load_pickle(item);
}

// Of a form that the bytes alone determine.
py::object load_item(PyObject* view, const Item& item) {
  switch (item.form) {
    case ItemForm::plain:
      return checked(load_pickle(item));
    case ItemForm::buffered:
      return checked(load_buffered(view, item));
    case ItemForm::array:
      return checked(load_array(view, item));
    default:
      throw CorruptData("cannot read an item: its form is unknown; its memory was damaged");
  }
}

std::uint64_t place_of(const Items& items, std::int64_t index) {
  // Numbers from a damaged handle may be anything; these wrap.
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  auto at = static_cast<std::int64_t>(number(items.first) + number(index) * number(items.step));
  if (items.selected != nullptr) {
    if (at < 0 || at >= items.selected_count) at = -1;
    if (at >= 0) {
      const auto* place = reinterpret_cast<const std::byte*>(items.selected + at);
      at = static_cast<std::int64_t>(read_once(place));
    }
  }
  if (at < 0 || static_cast<std::uint64_t>(at) >= items.table.size()) {
    throw CorruptData("cannot read a shared list: its index " + std::to_string(index) +
                      " leads outside of it; its memory was damaged. Rebuild the container");
  }
  return static_cast<std::uint64_t>(at);
}

PyObject* make(PyObject* self, std::int64_t index) {
  return guarded([&]() -> PyObject* {
    const Items& items = *as_items(self);
    const std::uint64_t place = place_of(items, index);
    const Item item = items.table.at(place);
    PyObject* const view = PyTuple_GET_ITEM(items.views, static_cast<Py_ssize_t>(item.piece));
    if (item.form == ItemForm::plain) return load_plain(items, item);
    if (item.form != ItemForm::nested) return load_item(view, item).release().ptr();
    const py::object bytes = slice_of(view, item.offset, item.bytes.size());
    const py::int_ number(place);
    return PyObject_CallMethodObjArgs(self, g_nested, bytes.ptr(), number.ptr(), nullptr);
  });
}

// The bytes that access to an item copies, before it is unpickled. Arrays and buffers are views.
PyObject* copied_bytes(PyObject* self, PyObject* number) {
  return guarded([&]() -> std::size_t {
    const Items& items = *as_items(self);
    const Item item = items.table.at(place_of(items, py::handle(number).cast<std::int64_t>()));
    switch (item.form) {
      case ItemForm::plain:
        return item.bytes.size();
      case ItemForm::buffered:
        return BufferedItem::parse(item.bytes).pickle.size();
      default:
        return 0;
    }
  });
}

// --- the sequence ---

Py_ssize_t length(PyObject* self) { return as_items(self)->length; }

PyObject* out_of_range(PyObject* self, Py_ssize_t index) {
  return PyErr_Format(PyExc_IndexError, "index %zd is out of range for %zd items", index,
                      static_cast<Py_ssize_t>(as_items(self)->length));
}

PyObject* item(PyObject* self, Py_ssize_t index) {
  if (index < 0 || index >= as_items(self)->length) {
    return out_of_range(self, index);
  }
  return make(self, index);
}

PyObject* subscript(PyObject* self, PyObject* key) {
  if (!PyIndex_Check(key)) return PyObject_CallMethodOneArg(self, g_select, key);
  Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) {
    // An array is an index only if it has one element; otherwise it selects.
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) return nullptr;
    PyErr_Clear();
    return PyObject_CallMethodOneArg(self, g_select, key);
  }
  const std::int64_t size = as_items(self)->length;
  if (index < -size || index >= size) return out_of_range(self, index);
  return make(self, index < 0 ? index + size : index);
}

// --- making and destroying ---

PyObject* new_items(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded([&] {
    PyObject* pieces = nullptr;
    PyObject* selection = nullptr;
    long long first = 0;
    long long step = 1;
    long long count = -1;
    if (PyArg_ParseTuple(arguments, "O!|LLLO", &PyTuple_Type, &pieces, &first, &step, &count,
                         &selection) == 0) {
      throw py::error_already_set();
    }
    py::object object = checked(type->tp_alloc(type, 0));
    Items* items = as_items(object.ptr());
    new (&items->table) ItemTable;
    items->owners = Py_NewRef(pieces);
    const Py_ssize_t number = PyTuple_GET_SIZE(pieces);
    items->views = checked(PyTuple_New(number)).release().ptr();
    std::vector<ItemTable::Piece> spans;
    for (Py_ssize_t i = 0; i < number; ++i) {
      PyObject* view = bytes_view(PyTuple_GET_ITEM(pieces, i)).release().ptr();
      PyTuple_SET_ITEM(items->views, i, view);
      spans.push_back(bytes_of(view));
    }
    items->table = ItemTable(std::move(spans));
    auto all = static_cast<std::int64_t>(items->table.size());
    if (selection != nullptr && selection != Py_None) {
      items->selection = checked(PyMemoryView_FromObject(selection)).release().ptr();
      const Py_buffer* buffer = PyMemoryView_GET_BUFFER(items->selection);
      if (buffer->ndim != 1 || buffer->itemsize != 8 || PyBuffer_IsContiguous(buffer, 'C') == 0) {
        throw py::value_error("a selection is a contiguous array of int64");
      }
      items->selected = static_cast<const std::int64_t*>(buffer->buf);
      items->selected_count = all = buffer->shape[0];
    }
    items->first = first;
    items->step = step;
    items->length = count < 0 ? all : count;
    return object;
  });
}

void dealloc(PyObject* self) {
  Items* items = as_items(self);
  items->table.~ItemTable();
  Py_XDECREF(items->selection);
  Py_XDECREF(items->views);
  Py_XDECREF(items->owners);
  free_object(self);
}

PyObject* get_pieces(PyObject* self, void*) { return Py_NewRef(as_items(self)->owners); }
PyObject* get_range(PyObject* self, void*) {
  const Items& items = *as_items(self);
  return Py_BuildValue("(LLL)", static_cast<long long>(items.first),
                       static_cast<long long>(items.step), static_cast<long long>(items.length));
}
PyObject* get_selection(PyObject* self, void*) {
  PyObject* view = as_items(self)->selection;
  return Py_NewRef(view != nullptr ? PyMemoryView_GET_BASE(view) : Py_None);
}
PyObject* get_kind(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(as_items(self)->table.kind());
}
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(as_items(self)->table.bytes());
}

PyGetSetDef g_properties[] = {
    {"_pieces", get_pieces, nullptr, nullptr, nullptr},
    {"_range", get_range, nullptr, nullptr, nullptr},
    {"_selection", get_selection, nullptr, nullptr, nullptr},
    {"_kind", get_kind, nullptr, nullptr, nullptr},
    {"nbytes", get_nbytes, nullptr,
     "Bytes of shared memory that all items and their places take; for a view, those of the "
     "whole container.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef g_methods[] = {
    {"_copied_bytes", copied_bytes, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

py::object load_item(PyObject* view, ItemForm form) {
  return load_item(view, Item{.form = form, .bytes = bytes_of(view)});
}

void add_item_sequence(py::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_new, slot(new_items)},
      {Py_tp_dealloc, slot(dealloc)},
      {Py_tp_getset, g_properties},
      {Py_tp_methods, g_methods},
      {Py_sq_length, slot(length)},
      {Py_sq_item, slot(item)},
      {Py_mp_length, slot(length)},
      {Py_mp_subscript, slot(subscript)},
      {0, nullptr},
  };
  add_type(module, "shmtensor._core.ItemsBase", sizeof(Items),
           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots);
  g_loads = py::object(py::module_::import("pickle").attr("loads")).release().ptr();
  g_buffers = py::make_tuple("buffers").release().ptr();
  g_select = py::str("_select").release().ptr();
  g_nested = py::str("_nested").release().ptr();
  g_fortran = py::str("F").release().ptr();
  g_dtypes = py::dict().release().ptr();
}

}  // namespace shmtensor::python
