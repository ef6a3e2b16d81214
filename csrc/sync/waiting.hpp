// Waits until another process changes a state.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/atomic.hpp"
#include "queue/wait_flag.hpp"
#include "sync/spin.hpp"

namespace shmtensor::sync {

/// So long does a thread wait in one call, so that it can check whether there is a manager: a
/// killed one repairs nothing.
inline constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(100);

/// Returns when `ready()` may be true, or the time is over. `waiters` is a WaitFlag.
template <typename Ready>
void sleep_until(Atomic<std::uint32_t>& waiters, Ready&& ready,
                 std::chrono::nanoseconds time) noexcept {
  if (spin_until(ready)) return;
  WaitFlag flag(waiters);
  const std::uint32_t announced = flag.announce();
  if (!ready()) flag.sleep(announced, std::min(time, kSlice));
}

}  // namespace shmtensor::sync
