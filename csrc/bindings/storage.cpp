#include "bindings/storage.hpp"

#include <structmember.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/report.hpp"
#include "bindings/exports.hpp"
#include "bindings/home.hpp"
#include "bindings/outgoing.hpp"
#include "cuda/copy.hpp"
#include "cuda/device_data.hpp"
#include "cuda/in_place.hpp"
#include "os/process.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_base = nullptr;  // _core.StorageBase
PyObject* g_class = nullptr;     // shmtensor.Storage, which derives from it
thread_local int t_peeks = 0;
std::atomic<Strategy> g_strategy{Strategy::file_descriptor};

// From here on a copy or a fill is worth giving other threads the GIL meanwhile.
constexpr std::uint64_t kLong = 64 * kKiB;

template <typename Body>
void without_gil_if(bool longer, Body&& body) {
  std::optional<py::gil_scoped_release> release;
  if (longer) release.emplace();
  body();
}

// --- life ---

py::object new_object(std::uint64_t size, const Backing& backing) {
  py::object object = new_untracked(reinterpret_cast<PyTypeObject*>(g_class));
  Storage* storage = as_storage(object);
  storage->size = size;
  new (&storage->first) Backing(backing);
  new (&storage->current) std::atomic<Backing*>(&storage->first);
  new (&storage->exposed) std::atomic<bool>(false);
  return object;
}

void release_block(Storage* storage, const Backing& backing) noexcept {
  bool last = false;
  {
    LocalTable::Lock lock(backing.arena->local(), backing.block);
    void*& place = lock.object(backing.access);
    if (place == storage) place = nullptr;
    last = backing.arena->release(lock, backing.block);
  }
  if (last) backing.arena->abandon(backing.block);
}

// What kernels and copies of this process still do to the memory must be done before anybody else
// may have it. At the interpreter's end that is left to the end of the process: the manager hears
// of it when the driver has stopped everything.
void release_device_block(Storage* storage, const Backing& backing) noexcept {
  auto* opened = static_cast<std::shared_ptr<cuda::Opened>*>(backing.keeper);
  if (cuda::Driver::usable() == nullptr) {
    if (!cuda::forked()) return;
    release_block(storage, backing);
    return;
  }
#if PY_VERSION_HEX >= 0x030D0000
  if (Py_IsFinalizing()) return;
#else
  if (_Py_IsFinalizing()) return;
#endif
  const bool wait = storage->exposed.load();
  const bool orphaned = backing.arena->segment().header().orphaned.load() != 0;
  const SessionId session = backing.arena->memory().id();
  std::optional<py::gil_scoped_release> release;
  if (wait || opened != nullptr || orphaned) release.emplace();
  try {
    if (wait) cuda::Gpu::get(backing.device).synchronize();
  } catch (const Error& error) {
    report(error.what());
  }
  delete opened;
  release_block(storage, backing);
  if (!orphaned) return;
  if (const auto there = Runtime::get().find(session)) there->drop_unused_orphans();
}

void release_backing(Storage* storage, const Backing& backing) noexcept {
  switch (backing.kind) {
    case Backing::Kind::block:
      if (backing.device >= 0) {
        release_device_block(storage, backing);
      } else {
        release_block(storage, backing);
      }
      break;
    case Backing::Kind::borrowed:
      if (auto* buffer = static_cast<Py_buffer*>(backing.keeper)) {
        PyBuffer_Release(buffer);
        delete buffer;
      }
      break;
    case Backing::Kind::file:
      delete static_cast<FileBacking*>(backing.keeper);
  }
}

void storage_dealloc(PyObject* self) {
  auto* storage = reinterpret_cast<Storage*>(self);
  if (storage->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Backing* current = storage->current.load();
  if (current != nullptr && current != &storage->first) {
    release_backing(storage, *current);
    delete current;
  }
  if (current != nullptr) release_backing(storage, storage->first);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// The object under which a block is known in this process, if it lives. A writable one serves a
// reader too.
PyObject* find_object(const LocalTable::Lock& lock, Access access) noexcept {
  for (const Access kind : {Access::read_write, Access::read_only}) {
    if (kind == Access::read_only && access == Access::read_write) continue;
    auto* object = static_cast<PyObject*>(lock.object(kind));
    if (object != nullptr && try_incref(object)) return object;
  }
  return nullptr;
}

// The address of a block, with the GIL given away if finding it takes long.
std::byte* address_of(Arena* arena, BlockNumber block, Access access) {
  if (std::byte* address = arena->address_at_once(block, access)) return address;
  const py::gil_scoped_release release;
  return arena->address(block, access);
}

bool has_ended(const cuda::Description& owner, const Arena& arena) noexcept {
  if (arena.segment().header().orphaned.load() != 0) return true;
  return owner.pid_namespace == pid_namespace() && !is_alive({owner.pid, owner.start_time});
}

// Memory that a user of another process owns; or of this one, which has sent it to itself.
py::object new_object_in_place(Arena* arena, BlockNumber block, Access access) {
  const std::byte* place = address_of(arena, block, Access::read_only);
  if (arena->size(block) < sizeof(cuda::Description)) throw StaleHandle("a handle is damaged");
  cuda::Description description{};
  std::memcpy(&description, place, sizeof description);
  Backing backing{.arena = arena, .block = block, .kind = Backing::Kind::block, .access = access};
  if (arena->owned()) {
    const Exported mine = exported(arena, block);
    backing.data = mine.data;
    backing.device = static_cast<std::int16_t>(mine.device);
  } else {
    std::shared_ptr<cuda::Opened> opened;
    {
      const py::gil_scoped_release release;
      opened = cuda::Opened::get(description, has_ended(description, *arena));
    }
    backing.data = reinterpret_cast<std::byte*>(opened->start() + description.offset);
    backing.device = static_cast<std::int16_t>(opened->gpu().number());
    backing.keeper = new std::shared_ptr<cuda::Opened>(std::move(opened));
  }
  py::object object = new_object(description.size, backing);
  as_storage(object)->exposed.store(arena->owned());  // its owner has the address
  return object;
}

py::object new_object_for(Arena* arena, BlockNumber block, Access access) {
  const Strategy strategy = arena->segment().strategy();
  if (strategy == Strategy::in_place) return new_object_in_place(arena, block, access);
  Backing backing{.data = address_of(arena, block, access),
                  .arena = arena,
                  .block = block,
                  .kind = Backing::Kind::block,
                  .access = access};
  if (strategy == Strategy::device) {
    const auto& data = static_cast<const cuda::DeviceData&>(arena->data());
    backing.device = static_cast<std::int16_t>(data.gpu().number());
  }
  return new_object(arena->size(block), backing);
}

// Wraps a block of which this call owns one reference, and makes the object known; an object that
// another thread made meanwhile wins.
py::object wrap_block(Arena* arena, BlockNumber block, Access access) {
  py::object object;
  try {
    object = new_object_for(arena, block, access);
  } catch (...) {
    arena->release(block);
    throw;
  }
  enable_try_incref(object.ptr());
  PyObject* other = nullptr;
  {
    LocalTable::Lock lock(arena->local(), block);
    other = find_object(lock, access);
    if (other == nullptr) lock.object(access) = object.ptr();
  }
  return other != nullptr ? py::reinterpret_steal<py::object>(other) : object;
}

class Pinned {
 public:
  explicit Pinned(Arena* arena) noexcept : arena_(arena) {}
  ~Pinned() { arena_->unpin(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  Arena* arena_;
};

// --- methods ---

PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Storage*>(self)->size);
}

PyObject* get_readonly(PyObject* self, void*) {
  return PyBool_FromLong(reinterpret_cast<Storage*>(self)->read_only());
}

PyObject* get_filename(PyObject* self, void*) {
  return guarded([&] {
    const Backing& backing = reinterpret_cast<Storage*>(self)->backing();
    if (backing.kind != Backing::Kind::file) return py::none().release().ptr();
    return PyUnicode_DecodeFSDefault(static_cast<FileBacking*>(backing.keeper)->path.c_str());
  });
}

PyObject* data_ptr(PyObject* self, PyObject*) {
  reinterpret_cast<Storage*>(self)->exposed.store(true);
  return PyLong_FromVoidPtr(reinterpret_cast<Storage*>(self)->backing().data);
}

PyObject* is_shared(PyObject* self, PyObject*) {
  return PyBool_FromLong(reinterpret_cast<Storage*>(self)->shared());
}

PyObject* share_memory(PyObject* self, PyObject*) {
  return guarded([&] {
    auto* storage = reinterpret_cast<Storage*>(self);
    Backing* before = storage->current.load();
    if (before->kind != Backing::Kind::borrowed) return Py_NewRef(self);
    // The copy gives its block away: to this object, or back if another thread was quicker.
    py::object copy = new_shared_storage(storage->size, default_strategy(), false);
    without_gil_if(storage->size >= kLong,
                   [&] { std::memcpy(as_storage(copy)->first.data, before->data, storage->size); });
    auto after = std::make_unique<Backing>(as_storage(copy)->first);
    after->access = before->access;
    {
      LocalTable::Lock lock(after->arena->local(), after->block);
      if (!storage->current.compare_exchange_strong(before, after.get())) return Py_NewRef(self);
      enable_try_incref(self);
      lock.object(after->access) = self;
      lock.set_count(lock.count() + 1);
    }
    after.release();
    return Py_NewRef(self);
  });
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* storage = reinterpret_cast<Storage*>(self);
  if (storage->device() >= 0) {
    view->obj = nullptr;
    PyErr_Format(PyExc_BufferError,
                 "the bytes lie on cuda:%d, where the host cannot read them; use cpu() or cupy()",
                 storage->device());
    return -1;
  }
  const Backing& backing = storage->backing();
  return PyBuffer_FillInfo(view, self, backing.data, static_cast<Py_ssize_t>(storage->size),
                           backing.access == Access::read_only ? 1 : 0, flags);
}

Py_ssize_t length(PyObject* self) {
  return static_cast<Py_ssize_t>(reinterpret_cast<Storage*>(self)->size);
}

PyGetSetDef g_properties[] = {
    {"nbytes", get_nbytes, nullptr, "Size in bytes.", nullptr},
    {"readonly", get_readonly, nullptr, "Is the memory mapped without the right to write?",
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
     "Do other processes that receive the storage see what is written here?\n\n"
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

template <typename Function>
void* slot(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

// --- functions of the module ---

py::object storage_from_file(const std::string& path, std::uint64_t size, bool read_only) {
  auto keeper = std::make_unique<FileBacking>();
  keeper->path = path;
  {
    const py::gil_scoped_release release;
    keeper->file = map_user_file(path, size, read_only ? Access::read_only : Access::read_write);
  }
  py::object object =
      new_object(keeper->file.size, {.data = keeper->file.mapping.data(),
                                     .keeper = keeper.get(),
                                     .kind = Backing::Kind::file,
                                     .access = read_only ? Access::read_only : Access::read_write});
  keeper.release();
  return object;
}

void set_default_strategy(const std::string& name) {
  if (name == "file_descriptor") {
    g_strategy.store(Strategy::file_descriptor);
  } else if (name == "file_system") {
    g_strategy.store(Strategy::file_system);
  } else {
    throw py::value_error("unknown sharing strategy '" + name +
                          "'; there are 'file_descriptor' and 'file_system'");
  }
}

py::tuple file_identity(const py::object& object) {
  const Backing& backing = as_storage(object)->backing();
  if (backing.kind != Backing::Kind::file) throw py::type_error("the storage is not a file's");
  const FileIdentity& identity = static_cast<FileBacking*>(backing.keeper)->file.identity;
  return py::make_tuple(identity.device, identity.inode);
}

}  // namespace

void Peek::open() noexcept { ++t_peeks; }
void Peek::close() noexcept { --t_peeks; }
bool Peek::is_open() noexcept { return t_peeks > 0; }

bool is_storage(PyObject* object) noexcept { return PyObject_TypeCheck(object, g_base) != 0; }

Strategy default_strategy() noexcept { return g_strategy.load(std::memory_order_relaxed); }

py::object new_shared_storage(std::uint64_t size, Strategy strategy, bool zeroed) {
  Session& session = home();
  std::optional<Block> block = session.allocate_warm(size, strategy);
  if (!block) {
    const py::gil_scoped_release release;
    block = session.allocate(size, strategy);
  }
  py::object object = wrap_block(block->arena, block->number, Access::read_write);
  if (zeroed) {
    std::byte* data = as_storage(object)->first.data;
    without_gil_if(size >= kLong, [&] { std::memset(data, 0, size); });
  }
  return object;
}

py::object new_device_storage(std::uint64_t size, int device, bool zeroed) {
  const Place place = Place::on_device(device);
  if (cuda::forked()) cuda::refuse_after_fork();
  Session& session = home();
  std::optional<Block> block = session.allocate_warm(size, place);
  if (!block) {
    const py::gil_scoped_release release;
    const cuda::Gpu& gpu = cuda::Gpu::get(device);
    if (!gpu.has_virtual_memory()) {
      throw cuda::CudaUnavailable(
          cuda::kNotSupported,
          "cannot allocate on cuda:" + std::to_string(device) +
              ": its driver does not share virtual memory by descriptors (WSL2, some vGPUs and old "
              "drivers do not); share arrays of another library with st.asarray, or host tensors");
    }
    block = session.allocate(size, place);
  }
  py::object object = wrap_block(block->arena, block->number, Access::read_write);
  if (zeroed) {
    const py::gil_scoped_release release;
    const std::byte zero{};
    cuda::fill(cuda::Gpu::get(device),
               reinterpret_cast<cuda::DevicePtr>(as_storage(object)->first.data), &zero, 1, size);
  }
  return object;
}

py::object wrap_in_place(Arena* arena, BlockNumber block, std::byte* data, int device,
                         std::uint64_t size) {
  py::object object = new_object(size, {.data = data,
                                        .arena = arena,
                                        .block = block,
                                        .kind = Backing::Kind::block,
                                        .device = static_cast<std::int16_t>(device)});
  as_storage(object)->exposed.store(true);
  enable_try_incref(object.ptr());
  LocalTable::Lock lock(arena->local(), block);
  lock.object(Access::read_write) = object.ptr();
  return object;
}

py::object borrow_storage(const py::object& exporter) {
  auto buffer = std::make_unique<Py_buffer>();
  // Any contiguous memory, writable if it can be had so.
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
    buffer.release();
    return object;
  } catch (...) {
    PyBuffer_Release(buffer.get());
    throw;
  }
}

py::object receive_storage(const Handle& handle, std::span<const std::byte> bytes) {
  const std::shared_ptr<Session> session = session_of(handle);
  check_signature(session->key(), bytes);
  Arena* arena = arena_of(*session, handle);
  const Pinned pinned(arena);
  const auto stale = [&] {
    return StaleHandle("cannot use a tensor's handle: block " + std::to_string(handle.block) +
                       " of arena " + std::to_string(handle.arena) +
                       " was freed; its bytes were loaded before and nobody held the tensor since");
  };
  if (handle.block >= arena->segment().capacity()) throw stale();
  TransitTable& transit = session->memory().transit(handle.ticket.sender);
  Ticket ticket = handle.ticket;
  if (Peek::is_open()) ticket.group = TransitTable::kGroups;  // none has this number
  PyObject* known = nullptr;
  bool held = false;
  {
    LocalTable::Lock lock(arena->local(), handle.block);
    held = arena->hold(lock, handle.block, handle.generation, ticket, transit);
    if (held) known = find_object(lock, handle.access);
    // The object has a reference of its own already, so this is not the last.
    if (known != nullptr) static_cast<void>(arena->release(lock, handle.block));
  }
  if (!held) {
    arena->abandon(handle.block);
    throw stale();
  }
  if (known != nullptr) return py::reinterpret_steal<py::object>(known);
  return wrap_block(arena, handle.block, handle.access);
}

py::object send_storage(const Storage& storage, Access access, std::span<const std::byte> tail) {
  const Backing& backing = storage.backing();
  if (backing.device >= 0) {
    if (cuda::forked()) cuda::refuse_after_fork();
    if (storage.exposed.load()) {
      // What other libraries have started on the memory is done before the message can be read.
      const py::gil_scoped_release release;
      cuda::Gpu::get(backing.device).synchronize();
    }
  }
  const std::size_t size = kHandleSize + tail.size() + kSignatureSize;
  py::object bytes = checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  const std::span out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), size);
  Arena& arena = *backing.arena;
  const Generation generation = arena.generation(backing.block);
  const Ticket ticket = arena.send(backing.block, Outgoing::keeps());
  Outgoing::record(arena, backing.block, generation, ticket);
  if (arena.memory().manager_changed()) {
    const py::gil_scoped_release release;
    Runtime::get().follow_managers();
  }
  const bool read_only = access == Access::read_only || backing.access == Access::read_only;
  encode({.session = arena.memory().id(),
          .arena = arena.segment().number(),
          .block = backing.block,
          .generation = generation,
          .ticket = ticket,
          .strategy = arena.segment().strategy(),
          .access = read_only ? Access::read_only : Access::read_write},
         out.first<kHandleSize>());
  std::memcpy(out.data() + kHandleSize, tail.data(), tail.size());
  sign(arena.memory().header().key, out);
  return bytes;
}

py::object share_copy(const Storage& storage) {
  const Backing& backing = storage.backing();
  py::object copy = new_shared_storage(storage.size, default_strategy(), false);
  std::byte* to = as_storage(copy)->first.data;
  without_gil_if(storage.size >= kLong, [&] { std::memcpy(to, backing.data, storage.size); });
  return copy;
}

py::object readonly_storage(const py::object& object) {
  if (!is_storage(object.ptr())) throw py::type_error("not a storage");
  const Backing& backing = as_storage(object)->backing();
  if (backing.kind != Backing::Kind::block || backing.access == Access::read_only) return object;
  Arena* arena = backing.arena;
  py::object made = new_object(arena->size(backing.block),
                               {.data = arena->address(backing.block, Access::read_only),
                                .arena = arena,
                                .block = backing.block,
                                .kind = Backing::Kind::block,
                                .access = Access::read_only});
  enable_try_incref(made.ptr());
  LocalTable::Lock lock(arena->local(), backing.block);
  lock.set_count(lock.count() + 1);  // `object` has one, so this is not the first
  if (lock.object(Access::read_only) == nullptr) lock.object(Access::read_only) = made.ptr();
  return made;
}

void add_storage(py::module_& module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, slot(storage_dealloc)},
      {Py_tp_getset, g_properties},
      {Py_tp_methods, g_methods},
      {Py_tp_members, g_members},
      {Py_bf_getbuffer, slot(get_buffer)},
      {Py_sq_length, slot(length)},
      {0, nullptr},
  };
  static PyType_Spec spec = {
      "shmtensor._core.StorageBase", sizeof(Storage), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  py::object type = checked(PyType_FromSpec(&spec));
  g_base = reinterpret_cast<PyTypeObject*>(type.ptr());
  module.add_object("StorageBase", type.release());

  module.def("register_storage_class", [](const py::object& type_object) {
    g_class = py::object(type_object).release().ptr();
  });
  module.def("new_storage", [](std::uint64_t size, bool zeroed) {
    return new_shared_storage(size, default_strategy(), zeroed);
  });
  module.def("borrow_storage", &borrow_storage);
  module.def("storage_from_file", &storage_from_file);
  module.def("file_identity", &file_identity);
  module.def("default_strategy", [] {
    return default_strategy() == Strategy::file_system ? "file_system" : "file_descriptor";
  });
  module.def("set_default_strategy", &set_default_strategy);
  if (const char* name = std::getenv("SHMTENSOR_SHARING_STRATEGY")) set_default_strategy(name);
}

}  // namespace shmtensor::python
