// Waiting with a deadline for another thread or process.
#pragma once

#include <chrono>
#include <thread>

namespace shmtensor::testing {

/// How long a test waits for another thread or process.
inline constexpr std::chrono::seconds kPatience{30};

/// Poll until the condition holds. Return false after `timeout`.
template <typename Predicate>
[[nodiscard]] bool eventually(Predicate&& predicate,
                              std::chrono::milliseconds timeout = kPatience) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace shmtensor::testing
