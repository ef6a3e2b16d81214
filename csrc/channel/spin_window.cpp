#include "channel/spin_window.hpp"

#include <algorithm>

#include "os/limits.hpp"

namespace shmtensor {

std::uint64_t SpinWindow::window(std::uint64_t now, int other) noexcept {
  const std::uint64_t window = window_.load(std::memory_order_relaxed);
  if (window == 0) return 0;
  if (now >= recheck_at_.load(std::memory_order_relaxed)) {
    recheck_at_.store(now + kRecheck, std::memory_order_relaxed);
    pinned_.store(usable_processors() < 2, std::memory_order_relaxed);
  }
  return pinned_.load(std::memory_order_relaxed) && other == present_processor() ? 0 : window;
}

void SpinWindow::note_slept(std::uint64_t waited) noexcept {
  const std::uint64_t window = window_.load(std::memory_order_relaxed);
  const std::uint32_t every = every_.load(std::memory_order_relaxed);
  if (window != 0 && is_trial_.load(std::memory_order_relaxed)) {
    is_trial_.store(false, std::memory_order_relaxed);
    every_.store(std::min(every * 2, kRarestTrial), std::memory_order_relaxed);
    window_.store(0, std::memory_order_relaxed);
  } else if (window != 0) {
    window_.store(window < kLeast ? 0 : window / 2, std::memory_order_relaxed);
  } else if (waited < kShort && short_.fetch_add(1, std::memory_order_relaxed) % every == 0) {
    is_trial_.store(true, std::memory_order_relaxed);
    window_.store(most_, std::memory_order_relaxed);
  }
}

}  // namespace shmtensor
