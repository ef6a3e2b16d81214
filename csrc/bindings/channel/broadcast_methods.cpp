#include "bindings/channel/broadcast_methods.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/method_docs.hpp"
#include "bindings/support/gil.hpp"

namespace shmtensor::python {
namespace {

PyObject* wait_for_readers(PyObject* self, PyObject* const* given, Py_ssize_t count,
                           PyObject* names) {
  return guarded([&] {
    const auto [number, timeout] =
        parse<2>("wait_for_readers", given, count, names, {"count", "timeout"}, 1);
    const Py_ssize_t wanted = to_number(number);
    if (wanted < 1 || wanted > Py_ssize_t{BroadcastHeader::kReaders}) {
      throw py::value_error("a broadcast has between 1 and " +
                            std::to_string(BroadcastHeader::kReaders) + " readers");
    }
    Patience patience = to_patience(self, timeout);
    while (std::cmp_less(usable<OpenBroadcast>(self).core.readers(), wanted)) {
      Broadcast& broadcast = usable<OpenBroadcast>(self).core;
      const std::chrono::nanoseconds left = patience.left();
      if (broadcast.is_shut_down()) {
        raise_unless_done(Attempt::shut_down, QueueEvent::room, OpenBroadcast::kChannel);
      }
      if (left.count() == 0) {
        PyErr_Format(PyExc_TimeoutError, "%u of %zd readers have joined", broadcast.readers(),
                     wanted);
        throw py::error_already_set();
      }
      wait_without_gil(
          [&] { broadcast.wait_for_readers(static_cast<std::uint32_t>(wanted), left); });
    }
  });
}

std::uint64_t lag_of_reader(const BroadcastReader& reader) {
  reader.require_ours();
  return reader.lag();
}

// The number of the value that was set is not known: another process may have set one since.
PyObject* set_latest(PyObject* self, PyObject* item) {
  return guarded([&] {
    Patience endless;
    put_one(opened<OpenLatest>(self), item, channel_of(self).dumps, endless);
  });
}

PyObject* get_latest(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> py::object {
    const auto [after, timeout] = parse<2>("_newer", given, count, names, {"after", "timeout"}, 1);
    const std::uint64_t known = to_unsigned(after);
    Patience patience = to_patience(self, timeout);
    const auto taken = get_newer(opened<OpenLatest>(self), known, patience);
    if (!taken) return py::none();
    return py::make_tuple(taken->first, taken->second);
  });
}

}  // namespace

PyMethodDef g_broadcast_methods[] = {
    {"put", method(put<OpenBroadcast>), kWithNames, docs::kPut},
    {"put_nowait", put_nowait<OpenBroadcast>, METH_O, docs::kPutNowait},
    {"lag", call_core<OpenBroadcast, &Broadcast::lag, usable<OpenBroadcast>>, METH_NOARGS,
     docs::kLag},
    {"lag_bytes", call_core<OpenBroadcast, &Broadcast::waiting_bytes, usable<OpenBroadcast>>,
     METH_NOARGS, docs::kLagBytes},
    {"wait_for_readers", method(wait_for_readers), kWithNames, docs::kWaitForReaders},
    {"shutdown",
     call_core<OpenBroadcast, unlocked<Broadcast, &Broadcast::shut_down>, usable<OpenBroadcast>>,
     METH_NOARGS, docs::kBroadcastShutdown},
    {"close", call_core<OpenBroadcast, &Broadcast::close>, METH_NOARGS, docs::kBroadcastClose},
    {},
};

PyMethodDef g_reader_methods[] = {
    {"get", method(get<OpenReader>), kWithNames, docs::kGet},
    {"get_nowait", get_nowait<OpenReader>, METH_NOARGS, docs::kGetNowait},
    {"_skip_to_newest",
     call_core<OpenReader, unlocked<BroadcastReader, &BroadcastReader::skip_to_newest>>,
     METH_NOARGS, nullptr},
    {"lag", call_core<OpenReader, lag_of_reader, usable<OpenReader>>, METH_NOARGS,
     docs::kReaderLag},
    {"close", call_core<OpenReader, unlocked<BroadcastReader, &BroadcastReader::leave>>,
     METH_NOARGS, docs::kReaderClose},
    {},
};

PyMethodDef g_latest_methods[] = {
    {"set", set_latest, METH_O, "Let `value` be the newest one."},
    {"_newer", method(get_latest), kWithNames, nullptr},
    {},
};

PyGetSetDef g_latest_properties[] = {
    {"version", call_core<OpenLatest, &Broadcast::count>, nullptr,
     "How many values were set, by all processes.", nullptr},
    {},
};

}  // namespace shmtensor::python
