#include "bindings/tensor/change_wait.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "bindings/support/gil.hpp"
#include "bindings/tensor/atomic_operations.hpp"
#include "bindings/tensor/dtype.hpp"
#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "os/growing_pause.hpp"

namespace shmtensor::python {
namespace {

constexpr std::uint64_t kSpinTime = 20'000;  // nanoseconds
constexpr double kLongestWait = 1e9;         // seconds
// A signal that arrives just before a sleep does not end it.
constexpr int kSleepsWithoutSignals = 50;

template <typename Changed>
bool wait_until(Changed&& changed, double timeout) {
  if (changed()) return true;
  const std::uint64_t begin = monotonic_nanoseconds();
  const double seconds = std::fmin(std::fmax(timeout, 0), kLongestWait);
  const std::uint64_t end = begin + static_cast<std::uint64_t>(seconds * 1e9);
  const std::uint64_t spin_end = std::min(begin + kSpinTime, end);
  GrowingPause pause;
  for (;;) {
    {
      const GilRelease release;
      for (int sleeps = 0; sleeps < kSleepsWithoutSignals;) {
        if (changed()) return true;
        const std::uint64_t now = monotonic_nanoseconds();
        if (now >= end) return false;
        if (now < spin_end) {
          pause_processor();
        } else if (pause.sleep(end - now)) {
          ++sleeps;
        } else {
          break;
        }
      }
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// One aligned element, and one value of the same dtype; `timeout` is in seconds.
bool wait_for_change(const py::array& element, const py::array& old, double timeout) {
  const auto* const place = static_cast<const std::byte*>(element.data());
  return visit_number(code_of_dtype(element.dtype().ptr()), [&]<typename T>(T value) {
    std::memcpy(&value, old.data(), sizeof value);
    return wait_until([&] { return differs<T>(place, value); }, timeout);
  });
}

}  // namespace

void add_change_wait(py::module_& module) { module.def("wait_for_change", &wait_for_change); }

}  // namespace shmtensor::python
