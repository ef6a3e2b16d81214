#include "bindings/pybind_fork.hpp"

#include "bindings/python.hpp"

#ifdef Py_GIL_DISABLED
#include <pthread.h>

#include <new>
#endif

namespace shmtensor::python {

#ifdef Py_GIL_DISABLED

namespace {

py::detail::pymutex* g_mutex = nullptr;

// What the mutex guards is whole: before it forks Python stops its threads, and none stops while it
// works there.
void make_mutex_anew() { new (g_mutex) py::detail::pymutex(); }

}  // namespace

void mend_pybind_after_fork() {
  g_mutex = &py::detail::get_internals().mutex;
  ::pthread_atfork(nullptr, nullptr, make_mutex_anew);
}

#else

void mend_pybind_after_fork() {}

#endif

}  // namespace shmtensor::python
