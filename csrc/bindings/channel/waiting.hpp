// Waits for a queue, with Python's timeouts and signals.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "bindings/support/gil.hpp"
#include "channel/channel_call.hpp"
#include "channel/queue.hpp"
#include "os/clock.hpp"

namespace shmtensor::python {

/// How long a call may wait.
/// Threads: one.
class Patience {
 public:
  /// Without a limit.
  Patience() noexcept = default;
  explicit Patience(double seconds) noexcept : timeout_(seconds) {}

  /// Return true if a call waits for a message, or for room.
  [[nodiscard]] bool blocks() const noexcept { return timeout_ > 0; }
  /// What is left at the first and each later call; zero at the end.
  [[nodiscard]] std::chrono::nanoseconds left() noexcept {
    const std::uint64_t now = monotonic_nanoseconds();
    if (end_ == 0) end_ = now + static_cast<std::uint64_t>(std::fmin(timeout_, kLongest) * 1e9);
    return std::chrono::nanoseconds(now < end_ ? static_cast<std::int64_t>(end_ - now) : 0);
  }

 private:
  static constexpr double kLongest = 1e9;  // seconds

  double timeout_ = std::numeric_limits<double>::infinity();
  std::uint64_t end_ = 0;
};

/// How long a call waits at least for a lock, or for the kernel, in seconds: it cannot succeed
/// without them, however little time it has. Then it gives up only if the lock's owner is stopped,
/// not if that waits for a processor.
inline constexpr double kMoment = 0.5;

/// Makes attempts until one is done, cannot succeed, or the time is over; returns the last result.
/// Throws the error of a signal handler, which runs after a call that does not block for long.
///
/// `Channel` is a queue, a broadcast, or its reader. The lock of an end that `prepare` took is
/// used, or released, before the GIL is acquired again and before signal handlers run: another
/// process would wait for the threads of this one, and a handler may fork, or use the same queue.
template <typename Channel, typename Try>
Attempt attempt_until(Channel& channel, ChannelCall& call, Patience& patience, Try&& attempt) {
  Attempt result = attempt();
  Patience moment(kMoment);
  try {
    for (;;) {
      if (is_final(result)) return result;
      const bool waits = result == Attempt::full || result == Attempt::empty;
      if (waits && !patience.blocks()) return result;
      std::chrono::nanoseconds left = patience.left();
      if (!waits) left = std::max(left, moment.left());
      if (left.count() == 0) {
        if (waits) return result;
        if (call.owner_is_stopped()) {
          channel.pass_wakeup_on();
          return result;
        }
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        moment = Patience(kMoment);
        continue;
      }
      {
        const GilRelease release;
        channel.prepare(result, call, left);
        result = attempt();
      }
      // After a message was taken, its reader handles the signal.
      if (is_final(result)) return result;
      if (patience.blocks() && PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  } catch (...) {
    channel.pass_wakeup_on();
    throw;
  }
}

}  // namespace shmtensor::python
