#include "bindings/storage/lifetime.hpp"

#include <atomic>

#include "bindings/session/session_access.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/objects.hpp"
#include "os/fork_mark.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_class = nullptr;  // shmtensor.Storage
std::atomic<bool> g_registered{false};

// The first storage of a process registers the reducers, so that every queue, pipe and pool sends
// handles; importing shmtensor alone registers nothing. A process with tensors has NumPy, and
// registers the reducers of arrays, too. A failed import is tried again at the next storage.
// Threads that make the first storages together all import: the import system makes each wait until
// the reducers are registered.
void register_reducers() {
  if (g_registered.load(std::memory_order_acquire)) return;
  py::module_::import("shmtensor.reducers");
  const py::dict loaded = py::module_::import("sys").attr("modules");
  if (loaded.contains("shmtensor.tensor")) py::module_::import("shmtensor._array_reducers");
  g_registered.store(true, std::memory_order_release);
}

void forget(LocalTable::Lock& lock, const Storage* storage, const Backing& backing) noexcept {
  if (lock.object(backing.access) != storage) return;
  backing.arena->local().set_object(lock, backing.access, nullptr);
}

void release_backing(Storage* storage, const Backing& backing) noexcept {
  switch (backing.kind) {
    case Backing::Kind::block:
      if (backing.device >= 0 || storage->pinned.load() != nullptr) {
        device_support.release(storage, backing);
      } else {
        // Without its last block, the arena may be retired by another thread.
        PinnedArena due;
        if (backing.arena->owned() && backing.arena->trim_is_due())
          due = PinnedArena(*backing.arena);
        release_block(storage, backing);
        if (due) trim_in_passing(*due);
      }
      break;
    case Backing::Kind::borrowed:
      if (auto* buffer = static_cast<Py_buffer*>(backing.keeper)) {
        PyBuffer_Release(buffer);
        delete buffer;
      }
      break;
    case Backing::Kind::file:
      without_gil_if(storage->size >= kLong,
                     [&] { delete static_cast<FileBacking*>(backing.keeper); });
  }
}

// Frees unused memory. Returns how many unread messages were cancelled for their age.
std::uint64_t gc(double older_than) {
  Session* session = Runtime::get().home_if_any();
  if (session == nullptr) return 0;
  device_support.release_deferred();
  const GilRelease release;
  Runtime::get().leave_unused();
  return session->collect(in_milliseconds(older_than));
}

}  // namespace

void forget_object(const Storage* storage, const Backing& backing) noexcept {
  LocalTable::Lock lock(backing.arena->local(), backing.block);
  forget(lock, storage, backing);
}

void release_block(const Storage* storage, const Backing& backing) noexcept {
  if (is_raw_copy()) return;  // a thread of the parent may have the entry locked
  bool last = false;
  {
    LocalTable::Lock lock(backing.arena->local(), backing.block);
    forget(lock, storage, backing);
    last = backing.arena->release(lock, backing.block);
  }
  if (last) backing.arena->unpin_and_try_free(backing.block);
}

void trim_in_passing(Arena& arena) noexcept {
  const GilRelease release;
  arena.trim_in_passing();
}

py::object new_object(std::uint64_t size, const Backing& backing) {
  register_reducers();  // before the object owns the memory: the caller releases it if this throws
  py::object object = new_untracked(reinterpret_cast<PyTypeObject*>(g_class));
  Storage* storage = as_storage(object);
  storage->size = size;
  new (&storage->first) Backing(backing);
  new (&storage->current) std::atomic<Backing*>(&storage->first);
  new (&storage->is_copy) std::atomic<bool>(false);
  new (&storage->exposed) std::atomic<bool>(false);
  new (&storage->pinned) std::atomic<cuda::PinnedBlock*>(nullptr);
  return object;
}

void storage_dealloc(PyObject* self) {
  auto* storage = reinterpret_cast<Storage*>(self);
  if (storage->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_XDECREF(storage->peer);
  Backing* current = storage->current.load();
  if (current != nullptr && current != &storage->first) {
    release_backing(storage, *current);
    delete current;
  }
  if (current != nullptr) release_backing(storage, storage->first);
  free_object(self);
}

void add_lifetime(py::module_& module) {
  module.def("register_storage_class",
             [](const py::object& type) { g_class = py::object(type).release().ptr(); });
  module.def("gc", &gc);
}

}  // namespace shmtensor::python
