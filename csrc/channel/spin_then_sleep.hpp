// Waits until a state in shared memory changes: by spinning, then in the kernel.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/atomic.hpp"
#include "channel/spin_window.hpp"
#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "queue/wait_flag.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// After this time a process that waits checks whether there is a manager: a killed one repairs
/// nothing. Its end wakes one of those that wait, but this one may be killed, too.
inline constexpr std::chrono::nanoseconds kWaitSlice = std::chrono::seconds(1);

/// As `other`: the process that is awaited needs the processor of this thread.
inline constexpr int kHere = -2;

/// Returns when `ready()` may be true, or after the time. `word` is a WaitFlag; `other` is the
/// processor on which the state that is awaited was last changed.
template <typename Ready>
void spin_then_sleep(Session& session, SpinWindow& spin, Atomic<std::uint32_t>& word, int other,
                     Ready&& ready, std::chrono::nanoseconds time) noexcept {
  const std::uint64_t begin = monotonic_nanoseconds();
  const std::uint64_t window = other == kHere ? 0 : spin.window(begin, other);
  if (window != 0) {
    const auto left = std::max(time, std::chrono::nanoseconds::zero());
    const std::uint64_t end = begin + std::min(window, static_cast<std::uint64_t>(left.count()));
    do {
      for (int i = 0; i < 8; ++i) {
        if (ready()) return spin.note_spun();
        pause_processor();
      }
    } while (monotonic_nanoseconds() < end);
  }
  session.manager().ensure();
  WaitFlag flag(word);
  const std::uint32_t announced = flag.announce();
  if (ready()) return;
  const Atomic<std::uint32_t>& manager = session.memory().header().manager;
  flag.sleep(announced, manager, manager.load(), std::min(time, kWaitSlice));
  spin.note_slept(monotonic_nanoseconds() - begin);
  session.manager().ensure();
}

}  // namespace shmtensor
