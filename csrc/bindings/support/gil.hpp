// Releasing and acquiring the GIL. Up to Python 3.13 a thread that acquires it after the
// interpreter's end is ended by pthread_exit. That unwinds its stack: through a destructor that
// must not throw, so that the process aborts, and past references that are released without the
// GIL. Here such a thread waits until the process ends, as in Python 3.14. pybind11's classes lack
// that, so only these are used.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "base/align.hpp"

namespace shmtensor::python {

/// For a thread that Python ends because the interpreter has ended.
[[noreturn]] inline void stay_until_exit() noexcept {
  for (;;) pause();
}

/// Return true if the interpreter ends, or has ended; also without the GIL.
inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Lets other threads run Python while it exists.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      stay_until_exit();
    }
  }

 private:
  PyThreadState* state_;
};

/// Acquires the GIL on any thread, also on one that Python does not know.
class GilAcquire {
 public:
  GilAcquire() {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      stay_until_exit();
    }
  }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  ~GilAcquire() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_{};
};

/// Waits by a function, without the GIL. Then throws the error of a signal handler.
template <typename Wait>
void wait_without_gil(Wait&& wait) {
  {
    const GilRelease release;
    std::forward<Wait>(wait)();
  }
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// A copy or fill of at least this many bytes releases the GIL.
inline constexpr std::uint64_t kLong = 64 * kKiB;

template <typename Body>
void without_gil_if(bool longer, Body&& body) {
  std::optional<GilRelease> release;
  if (longer) release.emplace();
  std::forward<Body>(body)();
}

}  // namespace shmtensor::python
