// The type of queues in shared memory.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <memory>
#include <utility>

#include "bindings/channel/late_errors.hpp"
#include "channel/queue.hpp"

namespace shmtensor::python {

/// What a queue needs in this process. The storage keeps the block held.
struct OpenQueue {
  OpenQueue(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)), queue(*session, block) {}

  std::shared_ptr<Session> session;
  Queue queue;
  LateErrors late_errors;
};

/// The Python object; `shmtensor.Queue` derives from it and adds no fields.
/// Threads: all functions may be called at the same time on one object.
struct QueueObject {
  PyObject_HEAD PyObject* weak_references;
  PyObject* storage;
  OpenQueue* open;   ///< null until `__init__`
  PyObject* dumps;   ///< the pickler of `put` if it is not that of all queues
  PyObject* claims;  ///< storage with the word for the positions of messages; may be null
};

[[nodiscard]] inline QueueObject& object_of(PyObject* self) noexcept {
  return *reinterpret_cast<QueueObject*>(self);
}

/// Throws RuntimeError if a subclass has not called `__init__`.
[[nodiscard]] OpenQueue& open_queue(PyObject* self);

void add_queue(py::module_& module);

}  // namespace shmtensor::python
