#include "bindings/sync/semaphores.hpp"

#include "bindings/sync/open_primitive.hpp"

namespace shmtensor::python {
namespace {

using std::chrono::nanoseconds;
using sync::Taken;

// How long the end of a process waits for one that changes the units and may be stopped, in
// seconds: it makes no other attempt.
constexpr double kAtExit = 10;

py::object new_semaphore_storage(std::uint32_t value, bool bounded) {
  return new_primitive(sync::Semaphore::bytes(value), [&](std::span<std::byte> block) {
    sync::Semaphore::create(block, value, bounded);
  });
}

// Changes the semaphore with its lock, which another process has for a moment, unless it is
// stopped. Throws the error of a signal handler.
template <typename Change>
Taken change_units(OpenSemaphore& open, Change&& change) {
  Taken result = change(nanoseconds::zero());
  if (result != Taken::locked) return result;
  Patience endless;
  static_cast<void>(wait_in_slices(*open.session, endless, [&](nanoseconds time) {
    result = change(time);
    return result != Taken::locked;
  }));
  return result;
}

bool take_unit(OpenSemaphore& open, Patience& patience) {
  const SlotNumber slot = open.slot();
  const auto acquire = [&](nanoseconds time) { return open.core.acquire(slot, time); };
  if (change_units(open, acquire) == Taken::done) return true;
  if (!patience.blocks()) return false;
  try {
    const bool taken = wait_in_slices(*open.session, patience, [&](nanoseconds time) {
      open.core.wait(time);
      return acquire(time) == Taken::done;
    });
    if (!taken) open.core.pass_wakeup_on();
    return taken;
  } catch (...) {
    open.core.pass_wakeup_on();
    throw;
  }
}

PyObject* acquire_unit(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    const auto [block, timeout] = parse<2>("acquire", given, count, names, {"block", "timeout"}, 0);
    Patience patience = patience_of(block, timeout);
    return take_unit(opened<OpenSemaphore>(self), patience);
  });
}

PyObject* release_units(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    OpenSemaphore& open = opened<OpenSemaphore>(self);
    const auto [number] = parse<1>("release", given, count, names, {"n"}, 0);
    const Py_ssize_t units = number == nullptr ? 1 : to_number(number);
    if (units < 1) throw py::value_error("n must be one or more");
    const SlotNumber slot = open.slot();
    const Taken result = change_units(open, [&](nanoseconds time) {
      if (std::cmp_greater(units, sync::Semaphore::kMost)) return Taken::none;
      return open.core.release(slot, static_cast<std::uint32_t>(units), time);
    });
    if (result != Taken::done) throw py::value_error("semaphore or lock released too many times");
  });
}

PyObject* enter_semaphore(PyObject* self, PyObject*) {
  return acquire_unit(self, nullptr, 0, nullptr);
}
PyObject* leave_semaphore(PyObject* self, PyObject* const*, Py_ssize_t) {
  return release_units(self, nullptr, 0, nullptr);
}

PyObject* disown_units(PyObject* self, PyObject*) {
  return guarded([&] {
    OpenSemaphore& open = opened<OpenSemaphore>(self);
    const SlotNumber slot = open.slot();
    Patience moment(kAtExit);
    static_cast<void>(wait_in_slices(*open.session, moment, [&](nanoseconds time) {
      return open.core.disown(slot, time) != Taken::locked;
    }));
  });
}

PyMethodDef g_semaphore_methods[] = {
    {"acquire", method(acquire_unit), kWithNames,
     "Take a unit, and return True; False after the timeout, or immediately without `block`."},
    {"release", method(release_units), kWithNames, "Give `n` units back."},
    {"get_value", call_core<OpenSemaphore, &sync::Semaphore::value>, METH_NOARGS,
     "Return the number of units that can be taken."},
    {"_disown", disown_units, METH_NOARGS, nullptr},
    {"__enter__", enter_semaphore, METH_NOARGS, nullptr},
    {"__exit__", method(leave_semaphore), METH_FASTCALL, nullptr},
    {},
};

}  // namespace

void add_semaphores(py::module_& module) {
  add_primitive<OpenSemaphore>(module, "shmtensor._core.SemaphoreBase", g_semaphore_methods);
  module.def("new_semaphore_storage", &new_semaphore_storage);
}

}  // namespace shmtensor::python
