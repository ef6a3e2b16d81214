#include "bindings/sync/conditions.hpp"

#include <exception>

#include "bindings/sync/open_primitive.hpp"

namespace shmtensor::python {
namespace {

using std::chrono::nanoseconds;

py::object new_event_storage() { return new_primitive(0, &sync::Event::create); }
py::object new_condition_storage() {
  return new_primitive(sync::Condition::bytes(), &sync::Condition::create);
}

PyObject* wait_for_event(PyObject* self, PyObject* const* given, Py_ssize_t count,
                         PyObject* names) {
  return guarded([&] {
    OpenEvent& open = opened<OpenEvent>(self);
    const auto [timeout] = parse<1>("wait", given, count, names, {"timeout"}, 0);
    Patience patience = patience_of(nullptr, timeout);
    const std::uint32_t since = open.core.changes();
    return open.core.has_happened(since) ||
           wait_in_slices(*open.session, patience, [&](nanoseconds time) {
             open.core.wait(since, time);
             return open.core.has_happened(since);
           });
  });
}

PyMethodDef g_event_methods[] = {
    {"is_set", call_core<OpenEvent, &sync::Event::is_set>, METH_NOARGS,
     "Return True if the event is set."},
    {"set", call_core<OpenEvent, &sync::Event::set>, METH_NOARGS,
     "Set the event: all that wait for it go on."},
    {"clear", call_core<OpenEvent, &sync::Event::clear>, METH_NOARGS, "Clear the event."},
    {"wait", method(wait_for_event), kWithNames,
     "Wait until the event is set, and return True; False after the timeout, in seconds."},
    {},
};

// The present thread has the lock before and after the call.
OpenLock& owned_lock(PyObject* lock, const char* what) {
  OpenLock& open = lock_of(lock);
  if (!open.core.is_mine(open.slot())) {
    throw std::runtime_error(std::string("cannot ") + what + " on un-acquired lock");
  }
  return open;
}

void lock_again(OpenLock& lock, std::uint32_t depth) {
  const SlotNumber slot = lock.slot();
  if (!lock.core.try_lock(slot)) {
    const GilRelease release;
    while (!lock.core.lock_within(slot, sync::kSlice)) lock.session->manager().ensure();
  }
  lock.core.set_depth(depth);
}

// Without the lock. A thread that finds the notification gone, because another one of its process
// has it, waits on.
bool sleep_until_notified(OpenCondition& open, OpenLock& lock, std::size_t place,
                          Patience& patience) {
  const std::uint32_t depth = lock.core.depth();
  for (;;) {
    static_cast<void>(lock.core.unlock());
    std::exception_ptr error;
    bool over = false;
    try {
      over = !wait_in_slices(*open.session, patience, [&](nanoseconds time) {
        open.core.sleep(place, time);
        return open.core.is_notified(place);
      });
    } catch (...) {
      error = std::current_exception();
    }
    lock_again(lock, depth);
    if (!error && !over && !open.core.is_notified(place)) continue;
    const bool notified = open.core.leave(place);
    if (error) {
      if (notified) open.core.notify(1);
      std::rethrow_exception(error);
    }
    return notified;
  }
}

PyObject* wait_for_condition(PyObject* self, PyObject* const* given, Py_ssize_t count,
                             PyObject* names) {
  return guarded([&] {
    OpenCondition& open = opened<OpenCondition>(self);
    const auto [lock, timeout] = parse<2>("_wait", given, count, names, {"lock", "timeout"}, 1);
    OpenLock& owned = owned_lock(lock, "wait");
    Patience patience = patience_of(nullptr, timeout);
    const std::size_t place = open.core.enter(open.slot());
    const bool notified = sleep_until_notified(open, owned, place, patience);
    try {
      tell_death(lock, owned);
    } catch (...) {
      if (notified) open.core.notify(1);
      throw;
    }
    return notified;
  });
}

PyObject* notify_threads(PyObject* self, PyObject* const* given, Py_ssize_t count,
                         PyObject* names) {
  return guarded([&] {
    OpenCondition& open = opened<OpenCondition>(self);
    const auto [lock, number] = parse<2>("_notify", given, count, names, {"lock", "n"}, 2);
    static_cast<void>(owned_lock(lock, "notify"));
    const Py_ssize_t threads = std::clamp<Py_ssize_t>(to_number(number), 0, UINT32_MAX);
    open.core.notify(static_cast<std::uint32_t>(threads));
  });
}

PyMethodDef g_condition_methods[] = {
    {"_wait", method(wait_for_condition), kWithNames, nullptr},
    {"_notify", method(notify_threads), kWithNames, nullptr},
    {},
};

}  // namespace

void add_conditions(py::module_& module) {
  add_primitive<OpenEvent>(module, "shmtensor._core.EventBase", g_event_methods);
  add_primitive<OpenCondition>(module, "shmtensor._core.ConditionBase", g_condition_methods);
  module.def("new_event_storage", &new_event_storage);
  module.def("new_condition_storage", &new_condition_storage);
}

}  // namespace shmtensor::python
