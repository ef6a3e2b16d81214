#include "bindings/channel/broadcast_methods.hpp"

#include <chrono>
#include <utility>

#include "bindings/channel/broadcast_docs.hpp"
#include "bindings/channel/broadcast_type.hpp"
#include "bindings/channel/encoding.hpp"
#include "bindings/channel/queue_transfer.hpp"
#include "bindings/channel/timeouts.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

BroadcastReader& open_reader(PyObject* self) {
  if (reader_of(self).closed.load()) throw py::value_error("the reader is closed");
  return *reader_of(self).reader;
}

// A message that no reader takes is not delivered, so its tickets are cancelled here.
void put_into(PyObject* self, PyObject* item, Patience patience) {
  Broadcast& broadcast = open_broadcast(self);
  EncodedMessage encoded(broadcast.session(), py::reinterpret_borrow<py::object>(item),
                         broadcast_dumps(), Readers::many);
  if (broadcast.on_full() == OnFull::raise) patience = Patience(false, 0);
  QueueCall call(broadcast.session());
  bool has_readers = false;
  const Attempt result = attempt_until(broadcast, call, patience, [&] {
    return broadcast.try_put(encoded.get(), call, has_readers);
  });
  if (result == Attempt::closed) open_broadcast(self);  // raises the error
  raise_unless_done(result, QueueEvent::room);
  if (has_readers) encoded.delivered();
  ensure_manager(broadcast.session());
}

PyObject* get_from(PyObject* self, Patience patience) {
  BroadcastReader& reader = open_reader(self);
  Incoming message;
  {
    QueueCall call(reader.session());
    const Attempt result =
        attempt_until(reader, call, patience, [&] { return reader.try_take(message, call); });
    if (result == Attempt::shut_down) static_cast<void>(open_reader(self));
    raise_unless_done(result, QueueEvent::message);
    ensure_manager(reader.session());
  }
  return decode_message(reader.session(), std::move(message), Readers::many).release().ptr();
}

PyObject* broadcast_put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [item, block, timeout] =
        parse<3>("put", given, count, names, {"item", "block", "timeout"}, 1);
    put_into(self, item, to_patience(self, block, timeout));
    return Py_NewRef(Py_None);
  });
}

PyObject* broadcast_put_nowait(PyObject* self, PyObject* item) {
  return guarded([&] {
    put_into(self, item, Patience(false, 0));
    return Py_NewRef(Py_None);
  });
}

PyObject* broadcast_lag(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(open_broadcast(self).lag()); });
}

PyObject* broadcast_wait_for_readers(PyObject* self, PyObject* const* given, Py_ssize_t count,
                                     PyObject* names) {
  return guarded([&] {
    const auto [number, timeout] =
        parse<2>("wait_for_readers", given, count, names, {"count", "timeout"}, 1);
    const Py_ssize_t wanted = PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (wanted == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (wanted < 1 || wanted > Py_ssize_t{BroadcastHeader::kReaders}) {
      throw py::value_error("a broadcast has between 1 and " +
                            std::to_string(BroadcastHeader::kReaders) + " readers");
    }
    Patience patience(true, to_timeout(self, timeout));
    while (std::cmp_less(open_broadcast(self).readers(), wanted)) {
      Broadcast& broadcast = open_broadcast(self);
      const std::chrono::nanoseconds left = patience.left();
      if (broadcast.is_shut_down()) raise_unless_done(Attempt::shut_down, QueueEvent::room);
      if (left.count() == 0) {
        PyErr_Format(PyExc_TimeoutError, "%u of %zd readers have joined", broadcast.readers(),
                     wanted);
        throw py::error_already_set();
      }
      {
        const GilRelease release;
        broadcast.wait_for_readers(static_cast<std::uint32_t>(wanted), left);
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* broadcast_shutdown(PyObject* self, PyObject*) {
  return guarded([&] {
    Broadcast& broadcast = open_broadcast(self);
    {
      const GilRelease release;
      broadcast.shut_down();
    }
    return Py_NewRef(Py_None);
  });
}

PyObject* broadcast_close(PyObject* self, PyObject*) {
  return guarded([&] {
    any_broadcast(self).close();
    return Py_NewRef(Py_None);
  });
}

PyObject* reader_get(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [block, timeout] = parse<2>("get", given, count, names, {"block", "timeout"}, 0);
    return get_from(self, to_patience(self, block, timeout));
  });
}

PyObject* reader_get_nowait(PyObject* self, PyObject*) {
  return guarded([&] { return get_from(self, Patience(false, 0)); });
}

PyObject* reader_lag(PyObject* self, PyObject*) {
  return guarded([&] {
    const BroadcastReader& reader = open_reader(self);
    reader.require_ours();
    return PyLong_FromUnsignedLongLong(reader.lag());
  });
}

PyObject* reader_close(PyObject* self, PyObject*) {
  return guarded([&] {
    if (!reader_of(self).closed.exchange(true)) {
      const GilRelease release;
      reader_of(self).reader->leave();
    }
    return Py_NewRef(Py_None);
  });
}

constexpr int kWithNames = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

PyMethodDef g_broadcast_methods[] = {
    {"put", method(broadcast_put), kWithNames, broadcast_docs::kPut},
    {"put_nowait", broadcast_put_nowait, METH_O, broadcast_docs::kPutNowait},
    {"lag", broadcast_lag, METH_NOARGS, broadcast_docs::kLag},
    {"wait_for_readers", method(broadcast_wait_for_readers), kWithNames,
     broadcast_docs::kWaitForReaders},
    {"shutdown", broadcast_shutdown, METH_NOARGS, broadcast_docs::kShutdown},
    {"close", broadcast_close, METH_NOARGS, broadcast_docs::kClose},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef g_reader_methods[] = {
    {"get", method(reader_get), kWithNames, broadcast_docs::kGet},
    {"get_nowait", reader_get_nowait, METH_NOARGS, broadcast_docs::kGetNowait},
    {"lag", reader_lag, METH_NOARGS, broadcast_docs::kReaderLag},
    {"close", reader_close, METH_NOARGS, broadcast_docs::kReaderClose},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace shmtensor::python
