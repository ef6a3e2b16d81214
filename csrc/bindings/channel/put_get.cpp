#include "bindings/channel/put_get.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "bindings/support/gil.hpp"
#include "channel/newest_message.hpp"

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

Readers readers_of(const Queue& queue) noexcept {
  return queue.redelivers() ? Readers::many : Readers::one;
}

// Takes a message if there is one; returns false otherwise. If the message was lost, a later call
// raises the error. Any other error means that nothing was taken: the next call repeats it.
bool take_present(OpenQueue& open, Incoming& message, ChannelCall& call) {
  Patience none(0);
  const auto attempt = [&] { return open.core.try_take(message, call); };
  try {
    return attempt_until(open.core, call, none, attempt) == Attempt::done;
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
      open.core.return_all();
      throw;
    }
  } catch (const std::exception&) {
    // not Python's
  }
  if (open.core.redelivers()) {
    open.core.return_one(kept);
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

// Makes attempts until one is done, or a message has no reader; throws what `put_one` and `get_one`
// throw.
template <typename Open, typename Try>
Attempt attempt_until_done(Open& open, ChannelCall& call, Patience& patience, QueueEvent awaited,
                           Try&& attempt) {
  const Attempt result = attempt_until(open.core, call, patience, attempt);
  if constexpr (std::is_same_v<Open, OpenQueue>) settle(open.core, awaited);
  if (result == Attempt::closed) Open::throw_closed();
  raise_unless_done(result, awaited, Open::kChannel);
  return result;
}

template <typename Open>
Incoming take_message(Open& open, Patience& patience) {
  Session& session = open.core.session();
  Incoming message;
  ChannelCall call(session);
  attempt_until_done(open, call, patience, QueueEvent::message,
                     [&] { return open.core.try_take(message, call); });
  ensure_manager(session);
  return message;
}

template <typename Open>
py::object take_one(Open& open, Patience& patience, Readers readers) {
  Incoming message = take_message(open, patience);
  return decode_message(open.core.session(), message, readers);
}

void put_encoded(OpenQueue& open, EncodedMessage& message, Patience& patience) {
  Queue& queue = open.core;
  ChannelCall call(queue.session());
  attempt_until_done(open, call, patience, QueueEvent::room,
                     [&] { return queue.try_put(message.get(), call); });
  message.delivered();
  ensure_manager(queue.session());
}

}  // namespace

void OpenQueue::throw_closed() {
  raise(g_exceptions.closed, "the queue is closed in this process");
}

void raise_unless_done(Attempt result, QueueEvent awaited, const char* channel) {
  if (result == Attempt::done || result == Attempt::no_reader) return;
  if (result == Attempt::shut_down) {
    raise(g_exceptions.shut_down, ("the " + std::string(channel) + " was shut down").c_str());
  }
  raise(awaited == QueueEvent::room ? g_exceptions.full : g_exceptions.empty);
}

void put_one(OpenQueue& open, PyObject* item, PyObject* dumps, Patience& patience) {
  EncodedMessage encoded(open.core.session(), py::reinterpret_borrow<py::object>(item), dumps,
                         readers_of(open.core));
  put_encoded(open, encoded, patience);
}

// A message that no reader takes is not delivered, so its tickets are cancelled here.
void put_one(OpenBroadcast& open, PyObject* item, PyObject* dumps, Patience& patience) {
  Broadcast& broadcast = open.core;
  EncodedMessage encoded(broadcast.session(), py::reinterpret_borrow<py::object>(item),
                         dumps != nullptr ? dumps : broadcast_dumps(), Readers::many);
  if (broadcast.on_full() == OnFull::raise) patience = Patience(0);
  ChannelCall call(broadcast.session());
  const Attempt result = attempt_until_done(open, call, patience, QueueEvent::room,
                                            [&] { return broadcast.try_put(encoded.get(), call); });
  if (result == Attempt::done) encoded.delivered();
  ensure_manager(broadcast.session());
}

py::object get_one(OpenQueue& open, Patience& patience) {
  complete_all(open.core);
  open.late_errors.raise();
  return take_one(open, patience, readers_of(open.core));
}

void put_raw(OpenQueue& open, std::span<const std::byte> bytes, Patience& patience) {
  EncodedMessage raw(open.core.session(), bytes);
  put_encoded(open, raw, patience);
}

std::pair<bool, py::object> get_either(OpenQueue& open, Patience& patience) {
  Incoming message = take_message(open, patience);
  const bool raw = is_raw(message);
  return {raw, decode_message(open.core.session(), message)};
}

py::object get_one(OpenReader& open, Patience& patience) {
  return take_one(open, patience, Readers::many);
}

std::optional<std::pair<std::uint64_t, py::object>> get_newer(OpenLatest& open, std::uint64_t after,
                                                              Patience& patience) {
  Session& session = open.core.session();
  NewestMessage newest(open.core, after);
  Incoming message;
  {
    ChannelCall call(session);
    const auto attempt = [&] { return newest.try_take(message, call); };
    if (attempt_until(newest, call, patience, attempt) != Attempt::done) return std::nullopt;
    ensure_manager(session);
  }
  return std::pair(newest.count(), decode_message(session, message, Readers::many));
}

// Messages outlive this process only if there is a manager, and a process that waits for the queue
// by a descriptor may not have been notified.
void ensure_manager(Session& session) {
  if (!session.memory().manager_changed()) return;
  const GilRelease release;
  session.manager().ensure();
}

void complete_all(Queue& queue) {
  if (!queue.keeps_any_here()) return;
  const GilRelease release;
  queue.complete_all();
}

py::list get_several(OpenQueue& open, Py_ssize_t most, Patience& patience) {
  if (open.core.redelivers()) most = std::min(most, kMostKept);
  py::list items;
  items.append(get_one(open, patience));
  ChannelCall call(open.core.session());
  for (Incoming message; py::ssize_t(items.size()) < most; message = {}) {
    if (!take_present(open, message, call)) break;
    const std::uint32_t kept = message.kept;
    try {
      items.append(decode_message(open.core.session(), message, readers_of(open.core)));
    } catch (const std::exception&) {
      end_batch(open, kept);
      break;
    }
  }
  settle(open.core, QueueEvent::message);
  return items;
}

void add_queue_exceptions(py::module_& module) {
  module.def("register_queue_exceptions",
             [](py::object full, py::object empty, py::object shut_down, py::object closed) {
               g_exceptions = {full.release().ptr(), empty.release().ptr(),
                               shut_down.release().ptr(), closed.release().ptr()};
             });
}

}  // namespace shmtensor::python
