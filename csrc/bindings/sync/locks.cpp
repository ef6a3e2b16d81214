#include "bindings/sync/locks.hpp"

#include <unistd.h>

#include "bindings/sync/open_primitive.hpp"
#include "os/clock.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_lock_type = nullptr;
PyTypeObject* g_recursive_type = nullptr;

py::object new_lock_storage(bool is_silent) {
  return new_primitive(0,
                       [&](std::span<std::byte> block) { sync::Lock::create(block, is_silent); });
}

bool try_at_once(OpenLock& open) { return open.core.try_lock(open.slot()); }
bool try_at_once(OpenRecursiveLock& open) {
  if (open.core.lock_again(open.slot())) return true;
  OpenRecursiveLock::expect_owner();
  return open.core.try_lock(open.slot());
}

bool wait_for_lock(OpenLock& open, Patience& patience) {
  if (!patience.blocks()) return false;
  const SlotNumber slot = open.slot();
  return wait_in_slices(*open.session, patience, [&](std::chrono::nanoseconds time) {
    return open.core.lock_within(slot, time);
  });
}

void release_one(OpenLock& open) {
  static_cast<void>(open.slot());
  if (!open.core.unlock()) throw py::value_error("semaphore or lock released too many times");
}
void release_one(OpenRecursiveLock& open) {
  if (open.core.unlock_once(open.slot())) return;
  PyErr_SetString(PyExc_AssertionError, "attempt to release recursive lock not owned by thread");
  throw py::error_already_set();
}

template <typename Open>
void take(Open& open) {
  if (try_at_once(open)) return;
  Patience endless;
  static_cast<void>(wait_for_lock(open, endless));
}

template <typename Open>
bool take_in_time(Open& open, Patience patience) {
  return try_at_once(open) || wait_for_lock(open, patience);
}

template <typename Open>
PyObject* acquire(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    Open& open = opened<Open>(self);
    if (count == 0 && names == nullptr) {
      take(open);
    } else {
      const auto [block, timeout] =
          parse<2>("acquire", given, count, names, {"block", "timeout"}, 0);
      if (!take_in_time(open, patience_of(block, timeout))) return false;
    }
    tell_death(self, open);
    return true;
  });
}

// For a task, in a thread that waits for it: unless it is cancelled, the task takes the lock over,
// and gets the error of a death.
template <typename Open>
PyObject* acquire_for_task(PyObject* self, PyObject* timeout) {
  return guarded([&] { return take_in_time(opened<Open>(self), patience_of(nullptr, timeout)); });
}
template <typename Open>
PyObject* take_over(PyObject* self, PyObject*) {
  return guarded([&] {
    Open& open = opened<Open>(self);
    open.core.take_over(open.slot());
    tell_death(self, open);
  });
}

// The block of `with` does not run after an error, so the lock is given back.
template <typename Open>
PyObject* enter(PyObject* self, PyObject*) {
  return guarded([&] {
    Open& open = opened<Open>(self);
    take(open);
    try {
      tell_death(self, open);
    } catch (...) {
      release_one(open);
      throw;
    }
    return true;
  });
}

template <typename Open>
PyObject* release(PyObject* self, PyObject*) {
  return guarded([&] { release_one(opened<Open>(self)); });
}

template <typename Open>
PyObject* leave(PyObject* self, PyObject* const*, Py_ssize_t) {
  return release<Open>(self, nullptr);
}

template <typename Open>
PyObject* is_mine(PyObject* self, PyObject*) {
  return guarded([&] {
    const Open& open = opened<Open>(self);
    return open.core.is_mine(open.slot());
  });
}

PyObject* must_be_kept(PyObject* self, PyObject*) {
  const OpenChannel* const open = channel_of(self).open;
  return Py_NewRef(open != nullptr && open->keeps_block() ? Py_True : Py_False);
}

template <typename Open>
PyMethodDef g_methods[] = {
    {"acquire", method(acquire<Open>), kWithNames,
     "Lock, and return True; False after the timeout, or immediately without `block`."},
    {"release", release<Open>, METH_NOARGS, "Unlock."},
    {"locked", call_core<Open, &sync::Lock::is_locked>, METH_NOARGS,
     "Return True if a process has the lock."},
    {"_is_mine", is_mine<Open>, METH_NOARGS, "Return True if this thread has the lock."},
    {"_must_be_kept", must_be_kept, METH_NOARGS, nullptr},
    {"_acquire_for_task", acquire_for_task<Open>, METH_O, nullptr},
    {"_take_over", take_over<Open>, METH_NOARGS, nullptr},
    {"_depth", call_core<Open, &sync::Lock::depth>, METH_NOARGS, nullptr},
    {"__enter__", enter<Open>, METH_NOARGS, nullptr},
    {"__exit__", method(leave<Open>), METH_FASTCALL, nullptr},
    {},
};
template <typename Open>
PyGetSetDef g_properties[] = {
    {"_is_silent", call_core<Open, &sync::Lock::is_silent>, nullptr, nullptr, nullptr},
    {},
};
}  // namespace

OpenRecursiveLock::OpenRecursiveLock(std::shared_ptr<Session> joined, const Block& block)
    : OpenLock(std::move(joined), block) {
  start_observing();
}

void OpenRecursiveLock::end_thread() noexcept {
  if (core.is_mine(session->slot())) core.unlock_for_thread(::getpid());
}

OpenLock& lock_of(PyObject* object) {
  if (PyObject_TypeCheck(object, g_lock_type) != 0) return opened<OpenLock>(object);
  if (PyObject_TypeCheck(object, g_recursive_type) != 0) return opened<OpenRecursiveLock>(object);
  throw py::type_error("a condition needs a Lock or RLock of this package");
}

void tell(PyObject* lock, const sync::Death& death) {
  const std::uint64_t now = coarse_milliseconds();
  const double seconds = now > death.at ? static_cast<double>(now - death.at) / 1000 : 0;
  static_cast<void>(checked(PyObject_CallMethod(lock, "_owner_died", "id", death.pid, seconds)));
}

void add_locks(py::module_& module) {
  g_lock_type = add_primitive<OpenLock>(module, "shmtensor._core.LockBase", g_methods<OpenLock>,
                                        g_properties<OpenLock>);
  g_recursive_type = add_primitive<OpenRecursiveLock>(module, "shmtensor._core.RLockBase",
                                                      g_methods<OpenRecursiveLock>,
                                                      g_properties<OpenRecursiveLock>);
  module.def("new_lock_storage", &new_lock_storage);
}

}  // namespace shmtensor::python
