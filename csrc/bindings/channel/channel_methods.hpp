// What the methods of queues, broadcasts and readers have in common.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <functional>

#include "bindings/channel/channel_type.hpp"
#include "bindings/channel/put_get.hpp"
#include "bindings/channel/waiting.hpp"
#include "bindings/support/arguments.hpp"
#include "bindings/support/errors.hpp"

namespace shmtensor::python {

inline constexpr int kWithNames = METH_FASTCALL | METH_KEYWORDS;

/// A Python object's timeout in seconds; None, or no object: no limit. A negative one is an error,
/// as for queue.Queue, unless the class of `self` has the attribute `_permits_negative_timeouts`.
[[nodiscard]] inline Patience to_patience(PyObject* self, PyObject* timeout) {
  const double seconds = to_seconds(timeout);
  if (seconds >= 0) return Patience(seconds);
  if (PyObject_HasAttrString(self, "_permits_negative_timeouts") != 0) return Patience(0);
  throw py::value_error("'timeout' must be a non-negative number");
}

/// The arguments `block` and `timeout` of a call that may wait.
[[nodiscard]] inline Patience to_patience(PyObject* self, PyObject* block, PyObject* timeout) {
  return to_bool(block, true) ? to_patience(self, timeout) : Patience(0);
}

/// An integer; of more than 63 bits, the nearest one.
[[nodiscard]] inline Py_ssize_t to_number(PyObject* object) {
  const Py_ssize_t number = PyNumber_AsSsize_t(object, nullptr);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

/// Calls a function of a channel without the GIL.
template <typename Core, auto kFunction>
auto unlocked(Core& core) {
  const GilRelease release;
  return std::invoke(kFunction, core);
}

/// A property, or a method without arguments, that returns what a function of the channel returns.
template <typename Open, auto kFunction, Open& (*kChannel)(PyObject*) = opened<Open>,
          typename Unused>
PyObject* call_core(PyObject* self, Unused*) {
  return guarded([&] { return std::invoke(kFunction, kChannel(self).core); });
}

template <typename Open>
PyObject* put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [item, block, timeout] =
        parse<3>("put", given, count, names, {"item", "block", "timeout"}, 1);
    Patience patience = to_patience(self, block, timeout);
    put_one(usable<Open>(self), item, channel_of(self).dumps, patience);
  });
}

template <typename Open>
PyObject* put_nowait(PyObject* self, PyObject* item) {
  return guarded([&] {
    Patience none(0);
    put_one(usable<Open>(self), item, channel_of(self).dumps, none);
  });
}

template <typename Open>
PyObject* get(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [block, timeout] = parse<2>("get", given, count, names, {"block", "timeout"}, 0);
    Patience patience = to_patience(self, block, timeout);
    return get_one(usable<Open>(self), patience);
  });
}

template <typename Open>
PyObject* get_nowait(PyObject* self, PyObject*) {
  return guarded([&] {
    Patience none(0);
    return get_one(usable<Open>(self), none);
  });
}

}  // namespace shmtensor::python
