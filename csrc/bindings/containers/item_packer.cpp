#include "bindings/containers/item_packer.hpp"

#include <cstring>
#include <utility>

#include "bindings/support/initializer.hpp"

namespace shmtensor::python {
namespace {

// One pickler serves many items: it is made once, and its memo is large enough. But clearing a memo
// takes as long as its largest size requires, so an item of this size is followed by a new pickler.
constexpr Py_ssize_t kLargeItem = 4096;

// Pickles items one after the other, each by itself, into one bytearray. Threads: one.
class Packer {
 public:
  // `reducers`: a dispatch table, or None for that of `copyreg`.
  explicit Packer(py::object reducers) : reducers_(std::move(reducers)) { renew(); }

  // Packs until there are `limit` bytes or `count` more items; appends `base | offset` of each to
  // `entries`. Returns None at the end of the iterator, True if there may be more, and (item,
  // pickle or None) for an item that the caller must add: an array, or an item with out-of-band
  // buffers, which are in `buffers` then.
  py::object pack(const py::object& iterator, std::uint64_t base, Py_ssize_t limit,
                  Py_ssize_t count) {
    if (!PyIter_Check(iterator.ptr())) throw py::type_error("pack takes an iterator");
    for (Py_ssize_t done = 0; done < count && size() < limit; ++done) {
      const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()));
      if (!item) {
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        return py::none();
      }
      if (Py_TYPE(item.ptr()) == py::detail::npy_api::get().PyArray_Type_) {
        return py::make_tuple(item, py::none());
      }
      const Py_ssize_t start = size();
      dump(item, start);
      if (PyList_GET_SIZE(buffers.ptr()) != 0) {
        const py::bytes data(PyByteArray_AS_STRING(staged.ptr()) + start,
                             static_cast<py::size_t>(size() - start));
        truncate(start);
        return py::make_tuple(item, data);
      }
      note(base | static_cast<std::uint64_t>(start));
      if (size() - start > kLargeItem) renew();
    }
    return py::bool_(true);
  }

  py::bytearray staged;
  py::bytearray entries;
  py::list buffers;
  py::object failed = py::none();  // the item that could not be pickled

 private:
  Py_ssize_t size() const { return PyByteArray_GET_SIZE(staged.ptr()); }

  void truncate(Py_ssize_t size) {
    if (PyByteArray_Resize(staged.ptr(), size) != 0) throw py::error_already_set();
  }

  void renew() {
    const py::object file = py::module_::import("types").attr("SimpleNamespace")(
        py::arg("write") = staged.attr("extend"));
    const py::object pickler = py::module_::import("pickle").attr("Pickler")(
        file, 5, py::arg("buffer_callback") = buffers.attr("append"));
    if (!reducers_.is_none()) pickler.attr("dispatch_table") = reducers_;
    dump_ = pickler.attr("dump");
    clear_memo_ = pickler.attr("clear_memo");
  }

  void dump(const py::object& item, Py_ssize_t start) {
    if (!py::reinterpret_steal<py::object>(PyObject_CallOneArg(dump_.ptr(), item.ptr())) ||
        !py::reinterpret_steal<py::object>(PyObject_CallNoArgs(clear_memo_.ptr()))) {
      const py::error_already_set cause;  // its beginning may be written
      truncate(start);
      failed = item;
      throw cause;
    }
  }

  void note(std::uint64_t entry) {
    const Py_ssize_t before = PyByteArray_GET_SIZE(entries.ptr());
    if (PyByteArray_Resize(entries.ptr(), before + Py_ssize_t{sizeof entry}) != 0) {
      throw py::error_already_set();
    }
    std::memcpy(PyByteArray_AS_STRING(entries.ptr()) + before, &entry, sizeof entry);
  }

  py::object reducers_;
  py::object dump_;
  py::object clear_memo_;
};

}  // namespace

void add_item_packer(py::module_& module) {
  py::class_<Packer>(module, "Packer")
      .def("__init__", initializer<Packer, py::object>(), kInitializer, py::arg("reducers"))
      .def("pack", &Packer::pack)
      .def_readonly("staged", &Packer::staged)
      .def_readonly("entries", &Packer::entries)
      .def_readonly("buffers", &Packer::buffers)
      .def_readonly("failed", &Packer::failed);
}

}  // namespace shmtensor::python
