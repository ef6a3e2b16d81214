#include "bindings/channel/queue_transfer.hpp"

#include <limits>
#include <utility>

#include "bindings/channel/encoding.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

/// queue.Full, queue.Empty, and the class for a queue that was shut down.
struct Exceptions {
  PyObject* full;
  PyObject* empty;
  PyObject* shut_down;
};
Exceptions g_exceptions{};

[[noreturn]] void raise(PyObject* type) {
  PyErr_SetNone(type);
  throw py::error_already_set();
}

// After an attempt, in a process that waits for the queue by a descriptor.
void settle(Queue& queue, QueueEvent event) {
  if (!queue.must_settle(event)) return;
  const GilRelease release;
  queue.settle(event);
}

}  // namespace

void raise_unless_done(Attempt result, QueueEvent awaited) {
  if (result == Attempt::done) return;
  if (result == Attempt::shut_down) raise(g_exceptions.shut_down);
  raise(awaited == QueueEvent::room ? g_exceptions.full : g_exceptions.empty);
}

void ensure_manager(Session& session) {
  if (!session.memory().manager_changed()) return;
  const GilRelease release;
  session.ensure_manager();
}

void put_one(Queue& queue, PyObject* item, PyObject* dumps, Patience& patience) {
  EncodedMessage encoded(queue.session(), py::reinterpret_borrow<py::object>(item), dumps);
  QueueCall call(queue.session());
  const Attempt result =
      attempt_until(queue, call, patience, [&] { return queue.try_put(encoded.get(), call); });
  settle(queue, QueueEvent::room);
  raise_unless_done(result, QueueEvent::room);
  encoded.delivered();
  ensure_manager(queue.session());
}

py::object get_one(Queue& queue, Patience& patience) {
  Incoming message;
  {
    QueueCall call(queue.session());
    const Attempt result =
        attempt_until(queue, call, patience, [&] { return queue.try_take(message, call); });
    settle(queue, QueueEvent::message);
    raise_unless_done(result, QueueEvent::message);
    ensure_manager(queue.session());
  }
  return decode_message(std::move(message));
}

py::list get_several(Queue& queue, Py_ssize_t most, Patience& patience) {
  py::list items;
  items.append(get_one(queue, patience));
  QueueCall call(queue.session());
  for (Incoming message; py::ssize_t(items.size()) < most; message = {}) {
    Patience none(false, 0);
    const auto attempt = [&] { return queue.try_take(message, call); };
    if (attempt_until(queue, call, none, attempt) != Attempt::done) break;
    items.append(decode_message(std::move(message)));
  }
  settle(queue, QueueEvent::message);
  return items;
}

std::uint64_t count_taken(Queue& queue) {
  QueueCall call(queue.session());
  Patience patience(true, std::numeric_limits<double>::infinity());
  std::uint64_t taken = 0;
  const auto attempt = [&] { return queue.try_count_taken(taken, call); };
  static_cast<void>(attempt_until(queue, call, patience, attempt));
  return taken;
}

void discard_all(Queue& queue) {
  QueueCall call(queue.session());
  for (Incoming message;; message = {}) {
    Patience patience(true, std::numeric_limits<double>::infinity());
    const auto attempt = [&] { return queue.try_take(message, call); };
    if (attempt_until(queue, call, patience, attempt) != Attempt::done) return;
    discard_message(std::move(message));
    static_cast<void>(queue.task_done());
  }
}

void add_queue_exceptions(py::module_& module) {
  module.def("register_queue_exceptions",
             [](const py::object& full, const py::object& empty, const py::object& shut_down) {
               g_exceptions = {py::object(full).release().ptr(), py::object(empty).release().ptr(),
                               py::object(shut_down).release().ptr()};
             });
}

}  // namespace shmtensor::python
