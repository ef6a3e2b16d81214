// Numbers the threads of a process.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"

namespace shmtensor {

/// The number of this thread, which no other thread of the process has or had.
[[nodiscard]] inline std::uint32_t thread_number() noexcept {
  static Atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace shmtensor
