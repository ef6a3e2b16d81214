#include "bindings/channel/queue_methods.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/encoding.hpp"
#include "bindings/channel/queue_type.hpp"
#include "bindings/channel/waiting.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"
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

Queue& usable(PyObject* self) {
  if (object_of(self).closed.load(std::memory_order_relaxed)) {
    throw py::value_error("the queue is closed in this process");
  }
  return object_of(self).open->queue;
}

// A Python object's timeout in seconds; None: no limit.
double to_timeout(PyObject* object) {
  if (object == nullptr || object == Py_None) return std::numeric_limits<double>::infinity();
  const double seconds = PyFloat_AsDouble(object);
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (std::isnan(seconds)) throw py::value_error("timeout is not a number");
  if (seconds < 0) throw py::value_error("'timeout' must be a non-negative number");
  return seconds;
}

Patience to_patience(PyObject* block, PyObject* timeout) {
  const int blocks = block == nullptr ? 1 : PyObject_IsTrue(block);
  if (blocks < 0) throw py::error_already_set();
  return {blocks != 0, blocks != 0 ? to_timeout(timeout) : 0};
}

// Messages outlive this process only if there is a manager, and a process that watches the queue
// may not have been told.
void ensure_manager(Queue& queue) {
  if (!queue.session().memory().manager_changed()) return;
  const GilRelease release;
  queue.session().ensure_manager();
}

// After an attempt, in a process that waits for the queue by a descriptor.
void settle(Queue& queue, QueueEvent event) {
  if (!queue.must_settle(event)) return;
  const GilRelease release;
  queue.settle(event);
}

void put_one(Queue& queue, PyObject* item, Patience& patience) {
  EncodedMessage encoded(queue.session(), py::reinterpret_borrow<py::object>(item));
  QueueCall call(queue.session());
  const Attempt result =
      attempt_until(queue, call, patience, [&] { return queue.try_put(encoded.get(), call); });
  settle(queue, QueueEvent::room);
  if (result == Attempt::shut_down) raise(g_exceptions.shut_down);
  if (result != Attempt::done) raise(g_exceptions.full);
  encoded.delivered();
  ensure_manager(queue);
}

py::object get_one(Queue& queue, Patience& patience) {
  Incoming message;
  {
    QueueCall call(queue.session());
    const Attempt result =
        attempt_until(queue, call, patience, [&] { return queue.try_take(message, call); });
    settle(queue, QueueEvent::message);
    if (result == Attempt::shut_down) raise(g_exceptions.shut_down);
    if (result != Attempt::done) raise(g_exceptions.empty);
    ensure_manager(queue);
  }
  return decode_message(std::move(message));
}

PyObject* put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [item, block, timeout] =
        parse<3>("put", given, count, names, {"item", "block", "timeout"}, 1);
    Patience patience = to_patience(block, timeout);
    put_one(usable(self), item, patience);
    return Py_NewRef(Py_None);
  });
}

PyObject* get(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [block, timeout] = parse<2>("get", given, count, names, {"block", "timeout"}, 0);
    Patience patience = to_patience(block, timeout);
    return get_one(usable(self), patience).release().ptr();
  });
}

PyObject* put_nowait(PyObject* self, PyObject* item) {
  return guarded([&] {
    Patience patience(false, 0);
    put_one(usable(self), item, patience);
    return Py_NewRef(Py_None);
  });
}

PyObject* get_nowait(PyObject* self, PyObject*) {
  return guarded([&] {
    Patience patience(false, 0);
    return get_one(usable(self), patience).release().ptr();
  });
}

PyObject* put_many(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [items, block, timeout] =
        parse<3>("put_many", given, count, names, {"items", "block", "timeout"}, 1);
    Patience patience = to_patience(block, timeout);
    Queue& queue = usable(self);
    const py::object iterator = checked(PyObject_GetIter(items));
    while (PyObject* next = PyIter_Next(iterator.ptr())) {
      const py::object item = py::reinterpret_steal<py::object>(next);
      put_one(queue, item.ptr(), patience);
    }
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return Py_NewRef(Py_None);
  });
}

// Waits for the first message only.
PyObject* get_many(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [most, block, timeout] =
        parse<3>("get_many", given, count, names, {"most", "block", "timeout"}, 0);
    Py_ssize_t left = PY_SSIZE_T_MAX;
    if (most != nullptr && most != Py_None) {
      left = PyNumber_AsSsize_t(most, PyExc_OverflowError);
      if (left == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      if (left < 1) throw py::value_error("'most' must be positive");
    }
    Patience patience = to_patience(block, timeout);
    Queue& queue = usable(self);
    py::list items;
    items.append(get_one(queue, patience));
    QueueCall call(queue.session());
    for (Incoming message; --left > 0; message = {}) {
      Patience none(false, 0);
      const auto attempt = [&] { return queue.try_take(message, call); };
      if (attempt_until(queue, call, none, attempt) != Attempt::done) break;
      items.append(decode_message(std::move(message)));
    }
    settle(queue, QueueEvent::message);
    return items.release().ptr();
  });
}

PyObject* qsize(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(usable(self).size()); });
}

PyObject* empty(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(usable(self).size() == 0); });
}

PyObject* full(PyObject* self, PyObject*) {
  return guarded([&] {
    const Queue& queue = usable(self);
    return PyBool_FromLong(queue.limit() != 0 && queue.size() >= queue.limit());
  });
}

PyObject* task_done(PyObject* self, PyObject*) {
  return guarded([&] {
    if (!usable(self).task_done()) throw py::value_error("task_done() called too many times");
    return Py_NewRef(Py_None);
  });
}

PyObject* join(PyObject* self, PyObject*) {
  return guarded([&] {
    Queue& queue = usable(self);
    while (!queue.all_done()) {
      {
        const GilRelease release;
        queue.wait_until_done(std::chrono::seconds(1));
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* shutdown(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [immediate] = parse<1>("shutdown", given, count, names, {"immediate"}, 0);
    const int discard = immediate == nullptr ? 0 : PyObject_IsTrue(immediate);
    if (discard < 0) throw py::error_already_set();
    Queue& queue = usable(self);
    {
      const GilRelease release;
      queue.shut_down();
    }
    if (discard == 0) return Py_NewRef(Py_None);
    QueueCall call(queue.session());
    for (Incoming message;; message = {}) {
      Patience patience(true, std::numeric_limits<double>::infinity());
      const auto attempt = [&] { return queue.try_take(message, call); };
      if (attempt_until(queue, call, patience, attempt) != Attempt::done) break;
      discard_message(std::move(message));
      static_cast<void>(queue.task_done());
    }
    return Py_NewRef(Py_None);
  });
}

template <QueueEvent event>
PyObject* watch(PyObject* self, PyObject*) {
  return guarded([&] {
    Queue& queue = usable(self);
    int descriptor = -1;
    {
      const GilRelease release;
      descriptor = queue.watch(event);
    }
    return PyLong_FromLong(descriptor);
  });
}

PyObject* close(PyObject* self, PyObject*) {
  object_of(self).closed.store(true);
  return Py_NewRef(Py_None);
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

PyMethodDef g_queue_methods[] = {
    {"put", method(put), kFast,
     "put($self, item, block=True, timeout=None)\n"
     "--\n"
     "\n"
     "Put an item at the end.\n"
     "\n"
     "Parameters\n"
     "----------\n"
     "item\n"
     "    Any object that can be pickled. A tensor is not copied, and shared from then on.\n"
     "block\n"
     "    Whether to wait for room if the queue is full.\n"
     "timeout\n"
     "    Seconds to wait; None for no limit.\n"
     "\n"
     "Raises\n"
     "------\n"
     "queue.Full\n"
     "    If there was no room in that time.\n"
     "ShutDown\n"
     "    If the queue was shut down.\n"
     "ValueError\n"
     "    If the queue is closed in this process.\n"
     "OutOfSharedMemory\n"
     "    If there is not enough memory; the queue is unchanged."},
    {"get", method(get), kFast,
     "get($self, block=True, timeout=None)\n"
     "--\n"
     "\n"
     "Remove the first item and return it.\n"
     "\n"
     "Parameters\n"
     "----------\n"
     "block\n"
     "    Whether to wait for an item if the queue is empty.\n"
     "timeout\n"
     "    Seconds to wait; None for no limit.\n"
     "\n"
     "Raises\n"
     "------\n"
     "queue.Empty\n"
     "    If there was no item in that time.\n"
     "ShutDown\n"
     "    If the queue was shut down and is empty.\n"
     "ValueError\n"
     "    If the queue is closed in this process.\n"
     "StaleHandleError\n"
     "    If the item was lost: the manager was killed together with all processes that had its "
     "memory open."},
    {"put_nowait", put_nowait, METH_O,
     "put_nowait($self, item, /)\n"
     "--\n"
     "\n"
     "Put an item if there is room, as ``put(item, block=False)``."},
    {"get_nowait", get_nowait, METH_NOARGS,
     "get_nowait($self, /)\n"
     "--\n"
     "\n"
     "Return the first item if there is one, as ``get(block=False)``."},
    {"put_many", method(put_many), kFast,
     "put_many($self, items, block=True, timeout=None)\n"
     "--\n"
     "\n"
     "Put all items of an iterable in order.\n"
     "\n"
     "Other processes may put items between them. `timeout` limits the whole call; the items that "
     "were put until\n"
     "then stay in the queue. Raises what `put` raises."},
    {"get_many", method(get_many), kFast,
     "get_many($self, most=None, block=True, timeout=None)\n"
     "--\n"
     "\n"
     "Remove the items that are there, at most `most`, and return them as a list.\n"
     "\n"
     "Waits for the first one only. Raises what `get` raises if there is none."},
    {"qsize", qsize, METH_NOARGS,
     "qsize($self, /)\n"
     "--\n"
     "\n"
     "Return the number of items; exact if no process puts or gets in the meantime."},
    {"empty", empty, METH_NOARGS,
     "empty($self, /)\n"
     "--\n"
     "\n"
     "Return True if the queue is empty; exact if no process puts or gets in the meantime."},
    {"full", full, METH_NOARGS,
     "full($self, /)\n"
     "--\n"
     "\n"
     "Return True if the queue has `maxsize` items; exact if no process puts or gets in the "
     "meantime."},
    {"task_done", task_done, METH_NOARGS,
     "task_done($self, /)\n"
     "--\n"
     "\n"
     "Count an item that this process got as done, for `join`.\n"
     "\n"
     "Raises\n"
     "------\n"
     "ValueError\n"
     "    If it was called more often than items were put."},
    {"join", join, METH_NOARGS,
     "join($self, /)\n"
     "--\n"
     "\n"
     "Wait until `task_done` was called for every item that was put."},
    {"shutdown", method(shutdown), kFast,
     "shutdown($self, immediate=False)\n"
     "--\n"
     "\n"
     "Let every later `put` raise `ShutDown`, and every `get` after the last item.\n"
     "\n"
     "Processes that wait are woken. With `immediate`, the items that are there are discarded and "
     "counted as\n"
     "done."},
    {"fileno", watch<QueueEvent::message>, METH_NOARGS,
     "fileno($self, /)\n"
     "--\n"
     "\n"
     "Return a descriptor that becomes readable when there is an item, or the queue is shut down.\n"
     "\n"
     "For `select`, `multiprocessing.connection.wait` and event loops. It stays open as long as "
     "this object; do not\n"
     "read from it or close it. If another process takes the item first, it is readable until the "
     "next `get`\n"
     "here: use `get_nowait`. A forked child has a descriptor of its own.\n"
     "\n"
     "Raises\n"
     "------\n"
     "SessionError, OSError\n"
     "    If the manager, or this process, has no descriptor left."},
    {"_fileno_of_room", watch<QueueEvent::room>, METH_NOARGS,
     "_fileno_of_room($self, /)\n"
     "--\n"
     "\n"
     "Return a descriptor that becomes readable when there is room, or the queue is shut down."},
    {"close", close, METH_NOARGS,
     "close($self, /)\n"
     "--\n"
     "\n"
     "Refuse further use in this process; other processes are not affected."},
    {nullptr, nullptr, 0, nullptr},
};

void add_queue_exceptions(py::module_& module) {
  module.def("register_queue_exceptions",
             [](const py::object& full, const py::object& empty, const py::object& shut_down) {
               g_exceptions = {py::object(full).release().ptr(), py::object(empty).release().ptr(),
                               py::object(shut_down).release().ptr()};
             });
}

}  // namespace shmtensor::python
