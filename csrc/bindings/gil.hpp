// Giving the GIL away and taking it back. Up to Python 3.13 a thread that wants it after the
// interpreter's end is thrown away by pthread_exit, which unwinds its stack: into a destructor that
// must not throw, so that the process aborts, and past references that would be dropped without the
// GIL. Here such a thread stays where it is until the process has ended, as Python 3.14 has it.
// Both sides in pybind11 lack that, so this file is used in their place.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/align.hpp"
#include "bindings/python.hpp"

namespace shmtensor::python {

/// Lets other threads run Python while it lives.
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

/// Takes the GIL on any thread, also on one that Python has never seen.
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

/// From this size on a copy or a fill is worth giving other threads the GIL meanwhile.
inline constexpr std::uint64_t kLong = 64 * kKiB;

template <typename Body>
void without_gil_if(bool longer, Body&& body) {
  std::optional<GilRelease> release;
  if (longer) release.emplace();
  std::forward<Body>(body)();
}

}  // namespace shmtensor::python
