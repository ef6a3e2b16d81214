#include "bindings/storage/storage.hpp"

#include <structmember.h>

#include <cstdlib>
#include <memory>

#include "bindings/storage/allocation.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/objects.hpp"
#include "queue/summary.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_base = nullptr;  // _core.StorageBase, from which shmtensor.Storage derives
std::atomic<Strategy> g_strategy{Strategy::file_descriptor};

Storage& own(PyObject* self) noexcept { return *reinterpret_cast<Storage*>(self); }

PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(own(self).size); }

PyObject* get_readonly(PyObject* self, void*) { return PyBool_FromLong(own(self).read_only()); }

PyObject* get_filename(PyObject* self, void*) {
  return guarded([&] {
    const Backing& backing = own(self).backing();
    if (backing.kind != Backing::Kind::file) return Py_NewRef(Py_None);
    return PyUnicode_DecodeFSDefault(static_cast<FileBacking*>(backing.keeper)->path.c_str());
  });
}

PyObject* data_ptr(PyObject* self, PyObject*) {
  expose(own(self));
  return PyLong_FromVoidPtr(own(self).backing().data);
}

PyObject* is_shared(PyObject* self, PyObject*) { return PyBool_FromLong(own(self).shared()); }

PyObject* share_memory(PyObject* self, PyObject*) {
  return guarded([&] {
    auto* storage = reinterpret_cast<Storage*>(self);
    Backing* before = storage->current.load();
    if (before->kind != Backing::Kind::borrowed) return Py_NewRef(self);
    // The copy's block becomes this object's, or is freed if another thread was quicker.
    const py::object copy = share_copy({before->data, storage->size});
    auto after = std::make_unique<Backing>(as_storage(copy)->first);
    after->access = before->access;
    {
      LocalTable::Lock lock(after->arena->local(), after->block);
      if (!storage->current.compare_exchange_strong(before, after.get())) return Py_NewRef(self);
      enable_try_incref(self);
      after->arena->local().set_object(lock, after->access, self);
      lock.set_count(lock.count() + 1);
    }
    static_cast<void>(after.release());
    return Py_NewRef(self);
  });
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* storage = reinterpret_cast<Storage*>(self);
  if (storage->device() >= 0) {
    view->obj = nullptr;
    PyErr_Format(PyExc_BufferError,
                 "the bytes are on cuda:%d, where the host cannot read them; use cpu() or cupy()",
                 storage->device());
    return -1;
  }
  const Backing& backing = storage->backing();
  return PyBuffer_FillInfo(view, self, backing.data, static_cast<Py_ssize_t>(storage->size),
                           backing.access == Access::read_only ? 1 : 0, flags);
}

Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(own(self).size); }

PyGetSetDef g_properties[] = {
    {"nbytes", get_nbytes, nullptr, "Size in bytes.", nullptr},
    {"readonly", get_readonly, nullptr, "True if the memory is mapped without the right to write.",
     nullptr},
    {"filename", get_filename, nullptr, "Path of the file that is mapped; None for other storages.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef g_methods[] = {
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr()\n--\n\n"
     "Return the address of the first byte in this process.\n\n"
     "Other processes have the same bytes at other addresses. Valid while the storage lives."},
    {"is_shared", is_shared, METH_NOARGS,
     "is_shared()\n--\n\n"
     "Return True if processes that receive the storage see what is written here.\n\n"
     "False for a wrapper of private memory, which is copied when it is sent."},
    {"share_memory_", share_memory, METH_NOARGS,
     "share_memory_()\n--\n\n"
     "Move the bytes into a block of shared memory; return the storage.\n\n"
     "Copies them once; does nothing if they are shared already. Every tensor over this storage\n"
     "moves along. Buffers and arrays that were made before keep the private memory.\n\n"
     "Raises\n------\nOutOfSharedMemory\n    If there is no memory; nothing has changed then."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Storage, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// --- functions of the module ---

// Wraps the memory of an object that has the buffer protocol; copies nothing.
py::object borrow_storage(const py::object& exporter) {
  auto buffer = std::make_unique<Py_buffer>();
  // Any contiguous memory, writable if the object permits.
  if (PyObject_GetBuffer(exporter.ptr(), buffer.get(), PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) !=
      0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(exporter.ptr(), buffer.get(), PyBUF_ANY_CONTIGUOUS) != 0) {
      throw py::error_already_set();
    }
  }
  try {
    py::object object =
        new_object(static_cast<std::uint64_t>(buffer->len),
                   {.data = static_cast<std::byte*>(buffer->buf),
                    .keeper = buffer.get(),
                    .kind = Backing::Kind::borrowed,
                    .access = buffer->readonly != 0 ? Access::read_only : Access::read_write});
    static_cast<void>(buffer.release());
    return object;
  } catch (...) {
    PyBuffer_Release(buffer.get());
    throw;
  }
}

py::object storage_from_file(const std::string& path, std::uint64_t size, bool read_only) {
  if (path.find('\0') != std::string::npos) throw py::value_error("a path has no null characters");
  auto keeper = std::make_unique<FileBacking>();
  keeper->path = path;
  {
    const GilRelease release;
    keeper->file = map_file(path, size, read_only ? Access::read_only : Access::read_write);
  }
  py::object object =
      new_object(keeper->file.size, {.data = keeper->file.mapping.data(),
                                     .keeper = keeper.get(),
                                     .kind = Backing::Kind::file,
                                     .access = read_only ? Access::read_only : Access::read_write});
  FileBacking& backing = *keeper.release();
  static_cast<void>(Runtime::get());  // its handlers lock the address map during a fork
  enable_try_incref(object.ptr());
  backing.listed = AddressRange(backing.file.mapping.data(), backing.file.size, object.ptr());
  return object;
}

void set_default_strategy(const py::object& name) {
  for (const Strategy strategy : {Strategy::file_descriptor, Strategy::file_system}) {
    if (name.equal(py::str(name_of(strategy)))) return g_strategy.store(strategy);
  }
  throw py::value_error("unknown sharing strategy " + std::string(py::repr(name)) +
                        "; there are 'file_descriptor' and 'file_system'");
}

py::tuple file_identity(const py::object& object) {
  const Backing& backing = to_storage(object.ptr()).backing();
  if (backing.kind != Backing::Kind::file) throw py::type_error("the storage is not a file's");
  const FileIdentity& identity = static_cast<FileBacking*>(backing.keeper)->file.identity;
  return py::make_tuple(identity.device, identity.inode);
}

// (strategy, arena, block, number of processes that hold it); None for other memory than blocks.
// The storage holds the block, hence the arena.
py::object place_of(const py::object& object) {
  const Backing& backing = to_storage(object.ptr()).backing();
  if (backing.kind != Backing::Kind::block) return py::none();
  const Segment& segment = backing.arena->segment();
  return py::make_tuple(name_of(segment.strategy()), segment.number(), backing.block,
                        count_processes(segment, backing.block, backing.arena->memory()));
}

}  // namespace

bool is_storage(PyObject* object) noexcept { return PyObject_TypeCheck(object, g_base) != 0; }

Storage& to_storage(PyObject* object) {
  if (!is_storage(object)) throw py::type_error("not a storage");
  return *reinterpret_cast<Storage*>(object);
}

Strategy default_strategy() noexcept { return g_strategy.load(std::memory_order_relaxed); }

void add_storage(py::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(storage_dealloc)},
      {Py_tp_getset, g_properties},
      {Py_tp_methods, g_methods},
      {Py_tp_members, g_members},
      {Py_bf_getbuffer, slot(get_buffer)},
      {Py_sq_length, slot(length)},
      {0, nullptr},
  };
  constexpr unsigned kFlags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  g_base = add_type(module, "shmtensor._core.StorageBase", sizeof(Storage), kFlags, slots);

  module.def("borrow_storage", &borrow_storage);
  module.def("storage_from_file", &storage_from_file);
  module.def("file_identity", &file_identity);
  module.def("place_of", &place_of);
  module.def("default_strategy", [] { return name_of(default_strategy()); });
  module.def("set_default_strategy", &set_default_strategy);
  if (const char* name = std::getenv("SHMTENSOR_SHARING_STRATEGY")) {
    set_default_strategy(py::str(name));
  }
}

}  // namespace shmtensor::python
