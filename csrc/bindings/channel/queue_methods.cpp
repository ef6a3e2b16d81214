#include "bindings/channel/queue_methods.hpp"

#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/method_docs.hpp"
#include "bindings/storage/words.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/simple_buffer.hpp"

namespace shmtensor::python {
namespace {

PyObject* put_many(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [items, block, timeout] =
        parse<3>("put_many", given, count, names, {"items", "block", "timeout"}, 1);
    Patience patience = to_patience(self, block, timeout);
    OpenQueue& open = usable<OpenQueue>(self);
    const py::object iterator = checked(PyObject_GetIter(items));
    while (PyObject* next = PyIter_Next(iterator.ptr())) {
      const py::object item = py::reinterpret_steal<py::object>(next);
      put_one(open, item.ptr(), channel_of(self).dumps, patience);
    }
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  });
}

PyObject* get_many(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [most, block, timeout] =
        parse<3>("get_many", given, count, names, {"most", "block", "timeout"}, 0);
    Py_ssize_t left = PY_SSIZE_T_MAX;
    if (most != nullptr && most != Py_None) {
      left = to_number(most);
      if (left < 1) throw py::value_error("'most' must be positive");
    }
    Patience patience = to_patience(self, block, timeout);
    return get_several(usable<OpenQueue>(self), left, patience);
  });
}

bool is_empty(const Queue& queue) { return queue.size() == 0; }

// Queue::task_done, without the GIL where it may wait.
bool count_done(Queue& queue) {
  return queue.redelivers() ? unlocked<Queue, &Queue::task_done>(queue) : queue.task_done();
}

void task_done(Queue& queue) {
  if (count_done(queue)) return;
  throw py::value_error(queue.redelivers()
                            ? "task_done() called too many times: this thread has no item that it "
                              "has not completed; each get completes those before it"
                            : "task_done() called too many times");
}

void join(Queue& queue) {
  const bool was_closed = queue.is_closed();
  while (!queue.all_done()) {
    wait_without_gil([&] { queue.wait_until_done(std::chrono::seconds(1)); });
    if (!was_closed && queue.is_closed()) OpenQueue::throw_closed();
  }
}

// Takes all messages of a queue that was shut down, and counts them as done. Messages that other
// consumers have not completed stay theirs.
void discard_all(Queue& queue) {
  complete_all(queue);
  ChannelCall call(queue.session());
  for (Incoming message;; message = {}) {
    Patience endless;
    const auto attempt = [&] {
      const Attempt result = queue.try_take(message, call);
      const bool at_end = result == Attempt::empty || result == Attempt::ending;
      return at_end ? Attempt::shut_down : result;
    };
    try {
      if (attempt_until(queue, call, endless, attempt) != Attempt::done) return;
      if (!queue.redelivers()) discard_message(queue.session(), std::move(message));
    } catch (const StaleHandle&) {
      // it was lost together with its arena
    }
    static_cast<void>(count_done(queue));
  }
}

PyObject* shutdown(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [immediate] = parse<1>("shutdown", given, count, names, {"immediate"}, 0);
    const bool discard = to_bool(immediate, false);
    Queue& queue = usable<OpenQueue>(self).core;
    unlocked<Queue, &Queue::shut_down>(queue);
    if (discard) discard_all(queue);
  });
}

PyObject* put_bytes(PyObject* self, PyObject* data) {
  return guarded([&] {
    const SimpleBuffer buffer(data);
    Patience endless;
    put_raw(usable<OpenQueue>(self), buffer.bytes(), endless);
  });
}

// (whether `_put_bytes` has put it, the object)
PyObject* take_either(PyObject* self, PyObject*) {
  return guarded([&] {
    Patience endless;
    auto [raw, object] = get_either(usable<OpenQueue>(self), endless);
    return py::make_tuple(raw, std::move(object));
  });
}

// Waits until there is a message, or the queue was shut down. Returns false after the timeout. A
// thread that was woken takes nothing here, so it wakes another one.
PyObject* wait_for_message(PyObject* self, PyObject* timeout) {
  return guarded([&] {
    Queue& queue = usable<OpenQueue>(self).core;
    Patience patience = to_patience(self, timeout);
    ChannelCall call(queue.session());
    const auto ready = [&] { return queue.size() != 0 || queue.is_shut_down(); };
    if (ready()) return true;
    try {
      do {
        const std::chrono::nanoseconds left = patience.left();
        if (left.count() == 0) return false;
        wait_without_gil([&] { queue.prepare(Attempt::empty, call, left); });
        if (queue.is_closed()) OpenQueue::throw_closed();
      } while (!ready());
    } catch (...) {
      queue.pass_wakeup_on();
      throw;
    }
    queue.pass_wakeup_on();
    return true;
  });
}

template <QueueEvent event>
int watch(Queue& queue) {
  const GilRelease release;
  return queue.watch(event);
}

PyObject* claim_in(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [storage, index] =
        parse<2>("_claim_in", given, count, names, {"storage", "index"}, 2);
    Atomic<std::uint64_t>& word = word_of(storage, to_unsigned(index));
    auto& open = usable<OpenQueue>(self);
    open.claims = py::reinterpret_borrow<py::object>(storage);
    open.core.claim_in(word);
  });
}

// After the repair of what killed processes left.
std::uint64_t count_taken(Queue& queue) {
  ChannelCall call(queue.session());
  Patience endless;
  std::uint64_t taken = 0;
  const auto attempt = [&] { return queue.try_count_taken(taken, call); };
  if (attempt_until(queue, call, endless, attempt) != Attempt::done) OpenQueue::throw_closed();
  return taken;
}

}  // namespace

PyMethodDef g_queue_methods[] = {
    {"put", method(put<OpenQueue>), kWithNames, docs::kPut},
    {"get", method(get<OpenQueue>), kWithNames, docs::kGet},
    {"put_nowait", put_nowait<OpenQueue>, METH_O, docs::kPutNowait},
    {"get_nowait", get_nowait<OpenQueue>, METH_NOARGS, docs::kGetNowait},
    {"put_many", method(put_many), kWithNames, docs::kPutMany},
    {"get_many", method(get_many), kWithNames, docs::kGetMany},
    {"qsize", call_core<OpenQueue, &Queue::size>, METH_NOARGS, docs::kQsize},
    {"qbytes", call_core<OpenQueue, &Queue::waiting_bytes>, METH_NOARGS, docs::kQbytes},
    {"empty", call_core<OpenQueue, is_empty, usable<OpenQueue>>, METH_NOARGS, docs::kEmpty},
    {"full", call_core<OpenQueue, &Queue::is_full>, METH_NOARGS, docs::kFull},
    {"task_done", call_core<OpenQueue, task_done>, METH_NOARGS, docs::kTaskDone},
    {"join", call_core<OpenQueue, join>, METH_NOARGS, docs::kJoin},
    {"shutdown", method(shutdown), kWithNames, docs::kQueueShutdown},
    {"fileno", call_core<OpenQueue, watch<QueueEvent::message>, usable<OpenQueue>>, METH_NOARGS,
     docs::kFileno},
    {"_fileno_of_room", call_core<OpenQueue, watch<QueueEvent::room>, usable<OpenQueue>>,
     METH_NOARGS,
     "Return a descriptor that is readable while there is room, or the queue is shut down."},
    {"_put_bytes", put_bytes, METH_O, nullptr},
    {"_take", take_either, METH_NOARGS, nullptr},
    {"_wait", wait_for_message, METH_O, nullptr},
    {"_claim_in", method(claim_in), kWithNames,
     "Let each later `get` write the position of its message, plus 1, into a word of 8 bytes."},
    {"_put_count", call_core<OpenQueue, &Queue::put_count, usable<OpenQueue>>, METH_NOARGS,
     "Return how many messages were put since the queue was made."},
    {"_taken_count", call_core<OpenQueue, count_taken, usable<OpenQueue>>, METH_NOARGS,
     "Return how many messages were taken since then, also by processes that are dead."},
    {"close", call_core<OpenQueue, &Queue::close>, METH_NOARGS, docs::kQueueClose},
    {},
};

}  // namespace shmtensor::python
