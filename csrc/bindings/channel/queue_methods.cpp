#include "bindings/channel/queue_methods.hpp"

#include <utility>

#include "base/error.hpp"
#include "bindings/channel/queue_docs.hpp"
#include "bindings/channel/queue_transfer.hpp"
#include "bindings/channel/queue_type.hpp"
#include "bindings/channel/timeouts.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

OpenQueue& usable(PyObject* self) {
  OpenQueue& open = open_queue(self);
  if (open.queue.is_closed()) raise_unless_done(Attempt::closed, QueueEvent::message);
  return open;
}

Queue& usable_queue(PyObject* self) { return usable(self).queue; }

PyObject* put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [item, block, timeout] =
        parse<3>("put", given, count, names, {"item", "block", "timeout"}, 1);
    Patience patience = to_patience(self, block, timeout);
    put_one(usable_queue(self), item, object_of(self).dumps, patience);
    return Py_NewRef(Py_None);
  });
}

PyObject* get(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [block, timeout] = parse<2>("get", given, count, names, {"block", "timeout"}, 0);
    Patience patience = to_patience(self, block, timeout);
    return get_one(usable(self), patience).release().ptr();
  });
}

PyObject* put_nowait(PyObject* self, PyObject* item) {
  return guarded([&] {
    Patience patience(false, 0);
    put_one(usable_queue(self), item, object_of(self).dumps, patience);
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
    Patience patience = to_patience(self, block, timeout);
    Queue& queue = usable_queue(self);
    const py::object iterator = checked(PyObject_GetIter(items));
    while (PyObject* next = PyIter_Next(iterator.ptr())) {
      const py::object item = py::reinterpret_steal<py::object>(next);
      put_one(queue, item.ptr(), object_of(self).dumps, patience);
    }
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return Py_NewRef(Py_None);
  });
}

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
    Patience patience = to_patience(self, block, timeout);
    return get_several(usable(self), left, patience).release().ptr();
  });
}

PyObject* qsize(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(open_queue(self).queue.size()); });
}

PyObject* empty(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(usable_queue(self).size() == 0); });
}

PyObject* full(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(open_queue(self).queue.is_full()); });
}

PyObject* task_done(PyObject* self, PyObject*) {
  return guarded([&] {
    Queue& queue = open_queue(self).queue;
    if (!count_done(queue)) {
      throw py::value_error(queue.redelivers()
                                ? "task_done() called too many times: this thread has no item that "
                                  "it has not completed; each get completes those before it"
                                : "task_done() called too many times");
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* join(PyObject* self, PyObject*) {
  return guarded([&] {
    Queue& queue = open_queue(self).queue;
    const bool was_closed = queue.is_closed();
    while (!queue.all_done()) {
      {
        const GilRelease release;
        queue.wait_until_done(std::chrono::seconds(1));
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!was_closed) usable(self);
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* shutdown(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [immediate] = parse<1>("shutdown", given, count, names, {"immediate"}, 0);
    const int discard = immediate == nullptr ? 0 : PyObject_IsTrue(immediate);
    if (discard < 0) throw py::error_already_set();
    Queue& queue = usable_queue(self);
    {
      const GilRelease release;
      queue.shut_down();
    }
    if (discard != 0) discard_all(queue);
    return Py_NewRef(Py_None);
  });
}

template <QueueEvent event>
PyObject* watch(PyObject* self, PyObject*) {
  return guarded([&] {
    Queue& queue = usable_queue(self);
    int descriptor = -1;
    {
      const GilRelease release;
      descriptor = queue.watch(event);
    }
    return PyLong_FromLong(descriptor);
  });
}

PyObject* claim_in(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [storage, index] =
        parse<2>("_claim_in", given, count, names, {"storage", "index"}, 2);
    if (!is_storage(storage)) throw py::type_error("claims are in a storage");
    auto& words = *reinterpret_cast<Storage*>(storage);
    const Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_OverflowError);
    if (at == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (words.read_only() || words.device() >= 0 || at < 0 ||
        static_cast<std::uint64_t>(at) >= words.size / sizeof(std::uint64_t)) {
      throw py::value_error("no such word, or it is not writable");
    }
    using Word = std::atomic<std::uint64_t>;
    auto* const word = reinterpret_cast<Word*>(words.backing().data) + at;
    Py_XSETREF(object_of(self).claims, Py_NewRef(storage));
    usable_queue(self).claim_in(*word);
    return Py_NewRef(Py_None);
  });
}

PyObject* put_count(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(usable_queue(self).put()); });
}

PyObject* taken_count(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(count_taken(usable_queue(self))); });
}

PyObject* close(PyObject* self, PyObject*) {
  return guarded([&] {
    open_queue(self).queue.close();
    return Py_NewRef(Py_None);
  });
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

PyMethodDef g_queue_methods[] = {
    {"put", method(put), kFast, queue_docs::kPut},
    {"get", method(get), kFast, queue_docs::kGet},
    {"put_nowait", put_nowait, METH_O, queue_docs::kPutNowait},
    {"get_nowait", get_nowait, METH_NOARGS, queue_docs::kGetNowait},
    {"put_many", method(put_many), kFast, queue_docs::kPutMany},
    {"get_many", method(get_many), kFast, queue_docs::kGetMany},
    {"qsize", qsize, METH_NOARGS, queue_docs::kQsize},
    {"empty", empty, METH_NOARGS, queue_docs::kEmpty},
    {"full", full, METH_NOARGS, queue_docs::kFull},
    {"task_done", task_done, METH_NOARGS, queue_docs::kTaskDone},
    {"join", join, METH_NOARGS, queue_docs::kJoin},
    {"shutdown", method(shutdown), kFast, queue_docs::kShutdown},
    {"fileno", watch<QueueEvent::message>, METH_NOARGS, queue_docs::kFileno},
    {"_fileno_of_room", watch<QueueEvent::room>, METH_NOARGS, queue_docs::kFilenoOfRoom},
    {"_claim_in", method(claim_in), kFast, queue_docs::kClaimIn},
    {"_put_count", put_count, METH_NOARGS, queue_docs::kPutCount},
    {"_taken_count", taken_count, METH_NOARGS, queue_docs::kTakenCount},
    {"close", close, METH_NOARGS, queue_docs::kClose},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace shmtensor::python
