// The types of broadcasts in shared memory, and of their readers.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <atomic>
#include <memory>
#include <utility>

#include "channel/broadcast.hpp"

namespace shmtensor::python {

/// What a broadcast needs in this process. The storage keeps the block held.
struct OpenBroadcast {
  OpenBroadcast(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)), broadcast(*session, block) {}

  std::shared_ptr<Session> session;
  Broadcast broadcast;
};

/// The Python object; `shmtensor.Broadcast` derives from it and adds no fields.
/// Threads: all functions may be called at the same time on one object.
struct BroadcastObject {
  PyObject_HEAD PyObject* weak_references;
  PyObject* storage;
  OpenBroadcast* open;  ///< null until `__init__`
};

/// Likewise. A reader keeps the object of its broadcast.
struct ReaderObject {
  PyObject_HEAD PyObject* weak_references;
  PyObject* broadcast;
  BroadcastReader* reader;
  std::atomic<bool> closed;
};

[[nodiscard]] inline BroadcastObject& broadcast_of(PyObject* self) noexcept {
  return *reinterpret_cast<BroadcastObject*>(self);
}
[[nodiscard]] inline ReaderObject& reader_of(PyObject* self) noexcept {
  return *reinterpret_cast<ReaderObject*>(self);
}

/// The broadcast of this object, open or closed. Throws RuntimeError if a subclass has not called
/// `__init__`.
[[nodiscard]] Broadcast& any_broadcast(PyObject* self);
/// The broadcast, to be used through this object. Throws ValueError if the object is closed.
Broadcast& open_broadcast(PyObject* self);

void add_broadcast(py::module_& module);

}  // namespace shmtensor::python
