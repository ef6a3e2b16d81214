// Limits the shared memory that this process may reserve, over all its arenas.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"
#include "os/limits.hpp"

namespace shmtensor {

/// Threads: all members may be called simultaneously.
class Budget {
 public:
  void set_limit(std::uint64_t bytes) noexcept { limit_.store(bytes); }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_.load(); }
  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_.load(); }

  /// Returns false, and reserves nothing, if that would exceed the limit.
  [[nodiscard]] bool try_reserve(std::uint64_t bytes) noexcept {
    std::uint64_t now = reserved_.load();
    do {
      const std::uint64_t limit = limit_.load();
      if (bytes > limit || now > limit - bytes) return false;
    } while (!reserved_.compare_exchange_weak(now, now + bytes));
    return true;
  }
  void release(std::uint64_t bytes) noexcept { reserved_.fetch_sub(bytes); }

  /// Resets the reservation in a forked child, which owns no arena yet.
  void reset() noexcept { reserved_.store(0); }

 private:
  Atomic<std::uint64_t> limit_{kUnlimited};
  Atomic<std::uint64_t> reserved_{0};
};

}  // namespace shmtensor
