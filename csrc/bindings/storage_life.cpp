#include "bindings/storage_life.hpp"

#include <memory>

#include "base/report.hpp"
#include "bindings/gil.hpp"
#include "cuda/in_place.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

PyObject* g_class = nullptr;

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
  std::optional<GilRelease> release;
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

}  // namespace

void set_storage_class(const py::object& type) { g_class = py::object(type).release().ptr(); }

py::object new_object(std::uint64_t size, const Backing& backing) {
  py::object object = new_untracked(reinterpret_cast<PyTypeObject*>(g_class));
  Storage* storage = as_storage(object);
  storage->size = size;
  new (&storage->first) Backing(backing);
  new (&storage->current) std::atomic<Backing*>(&storage->first);
  new (&storage->exposed) std::atomic<bool>(false);
  return object;
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

}  // namespace shmtensor::python
