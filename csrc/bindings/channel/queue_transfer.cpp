#include "bindings/channel/queue_transfer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/encoding.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

/// queue.Full, queue.Empty, and the classes for a queue that was shut down or closed.
struct Exceptions {
  PyObject* full;
  PyObject* empty;
  PyObject* shut_down;
  PyObject* closed;
};
Exceptions g_exceptions{};

// So that one consumer does not keep what many could work on.
constexpr Py_ssize_t kMostKept = 64;

[[noreturn]] void raise(PyObject* type, const char* text = nullptr) {
  if (text == nullptr) {
    PyErr_SetNone(type);
  } else {
    PyErr_SetString(type, text);
  }
  throw py::error_already_set();
}

// What this thread received before is completed when it asks for the next message.
void complete_all(Queue& queue) {
  if (!queue.keeps_any_here()) return;
  const GilRelease release;
  queue.complete_all();
}

Readers readers_of(const Queue& queue) noexcept {
  return queue.redelivers() ? Readers::many : Readers::one;
}

// Takes a message if there is one; returns false otherwise. If the message was lost, a later call
// raises the error. Any other error means that nothing was taken: the next call repeats it.
bool take_present(OpenQueue& open, Incoming& message, QueueCall& call) {
  Patience none(false, 0);
  const auto attempt = [&] { return open.queue.try_take(message, call); };
  try {
    return attempt_until(open.queue, call, none, attempt) == Attempt::done;
  } catch (const StaleHandle&) {
    open.late_errors.add();
  } catch (const Error&) {
    // of the next call
  }
  return false;
}

// A message cannot be decoded, and the call returns those before it. That is not so if a signal
// handler has raised KeyboardInterrupt or SystemExit in the decoder.
void end_batch(OpenQueue& open, std::uint32_t kept) {
  try {
    throw;
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) {
      open.queue.return_all();
      throw;
    }
  } catch (const std::exception&) {
    // not Python's
  }
  if (open.queue.redelivers()) {
    open.queue.return_one(kept);
  } else {
    open.late_errors.add();
  }
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
  if (result == Attempt::shut_down) raise(g_exceptions.shut_down, "the queue was shut down");
  if (result == Attempt::closed) raise(g_exceptions.closed, "the queue is closed in this process");
  raise(awaited == QueueEvent::room ? g_exceptions.full : g_exceptions.empty);
}

void ensure_manager(Session& session) {
  if (!session.memory().manager_changed()) return;
  const GilRelease release;
  session.manager().ensure();
}

void put_one(Queue& queue, PyObject* item, PyObject* dumps, Patience& patience) {
  EncodedMessage encoded(queue.session(), py::reinterpret_borrow<py::object>(item), dumps,
                         readers_of(queue));
  QueueCall call(queue.session());
  const Attempt result =
      attempt_until(queue, call, patience, [&] { return queue.try_put(encoded.get(), call); });
  settle(queue, QueueEvent::room);
  raise_unless_done(result, QueueEvent::room);
  encoded.delivered();
  ensure_manager(queue.session());
}

py::object get_one(OpenQueue& open, Patience& patience) {
  Queue& queue = open.queue;
  complete_all(queue);
  open.late_errors.raise();
  Incoming message;
  {
    QueueCall call(queue.session());
    const Attempt result =
        attempt_until(queue, call, patience, [&] { return queue.try_take(message, call); });
    settle(queue, QueueEvent::message);
    raise_unless_done(result, QueueEvent::message);
    ensure_manager(queue.session());
  }
  return decode_message(queue.session(), std::move(message), readers_of(queue));
}

py::list get_several(OpenQueue& open, Py_ssize_t most, Patience& patience) {
  if (open.queue.redelivers()) most = std::min(most, kMostKept);
  py::list items;
  items.append(get_one(open, patience));
  QueueCall call(open.queue.session());
  for (Incoming message; py::ssize_t(items.size()) < most; message = {}) {
    if (!take_present(open, message, call)) break;
    const std::uint32_t kept = message.kept;
    try {
      items.append(
          decode_message(open.queue.session(), std::move(message), readers_of(open.queue)));
    } catch (const std::exception&) {
      end_batch(open, kept);
      break;
    }
  }
  settle(open.queue, QueueEvent::message);
  return items;
}

std::uint64_t count_taken(Queue& queue) {
  QueueCall call(queue.session());
  Patience patience(true, std::numeric_limits<double>::infinity());
  std::uint64_t taken = 0;
  const auto attempt = [&] { return queue.try_count_taken(taken, call); };
  raise_unless_done(attempt_until(queue, call, patience, attempt), QueueEvent::message);
  return taken;
}

bool count_done(Queue& queue) {
  if (!queue.redelivers()) return queue.task_done();
  const GilRelease release;
  return queue.task_done();
}

// Messages that other consumers have not completed stay theirs.
void discard_all(Queue& queue) {
  complete_all(queue);
  QueueCall call(queue.session());
  for (Incoming message;; message = {}) {
    Patience patience(true, std::numeric_limits<double>::infinity());
    const auto attempt = [&] {
      const Attempt result = queue.try_take(message, call);
      return result == Attempt::empty ? Attempt::shut_down : result;
    };
    try {
      if (attempt_until(queue, call, patience, attempt) != Attempt::done) return;
      if (!queue.redelivers()) discard_message(std::move(message));
    } catch (const StaleHandle&) {
      // it was lost together with its arena
    }
    static_cast<void>(count_done(queue));
  }
}

void add_queue_exceptions(py::module_& module) {
  module.def(
      "register_queue_exceptions", [](const py::object& full, const py::object& empty,
                                      const py::object& shut_down, const py::object& closed) {
        g_exceptions = {py::object(full).release().ptr(), py::object(empty).release().ptr(),
                        py::object(shut_down).release().ptr(), py::object(closed).release().ptr()};
      });
}

}  // namespace shmtensor::python
