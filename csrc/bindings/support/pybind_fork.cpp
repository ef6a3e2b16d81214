#include "bindings/support/pybind_fork.hpp"

#include "bindings/support/python.hpp"

#ifdef Py_GIL_DISABLED
#include <pthread.h>

#include <new>
#endif

namespace shmtensor::python {

#ifdef Py_GIL_DISABLED

namespace {

py::detail::pymutex* g_mutex = nullptr;

// The data that the mutex guards is consistent: Python stops its threads before it forks, and does
// not stop a thread that works there.
void reset_mutex() { new (g_mutex) py::detail::pymutex(); }

}  // namespace

void reset_pybind_mutex_after_fork() {
  g_mutex = &py::detail::get_internals().mutex;
  ::pthread_atfork(nullptr, nullptr, reset_mutex);
}

#else

void reset_pybind_mutex_after_fork() {}

#endif

}  // namespace shmtensor::python
