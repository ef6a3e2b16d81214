// A lock that its holder releases during long system calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "os/futex.hpp"

namespace shmtensor {

/// Protects the owner's bookkeeping of an arena. It is held for microseconds. Creating or freeing
/// pages can take seconds in the kernel, and is done in `unlocked`, on extents that the holder has
/// marked. Meets the requirements of std::lock_guard and std::unique_lock.
class YieldingLock {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  /// Runs `work` without the lock, then locks again, also if `work` throws. The bookkeeping may
  /// have changed in that time.
  template <typename Work>
  void unlocked(Work&& work) {
    unlock();
    const Relock relock(*this);
    std::forward<Work>(work)();
  }

  /// Releases the lock until `unlocked` of another thread ends, or for a moment.
  void wait() {
    const std::uint32_t seen = ended_.load();
    unlock();
    wait_for_change(ended_, seen);
    lock();
  }

 private:
  class Relock {
   public:
    explicit Relock(YieldingLock& lock) noexcept : lock_(lock) {}
    ~Relock() {
      lock_.lock();
      lock_.ended_.fetch_add(1);
      wake_all(lock_.ended_);
    }
    Relock(const Relock&) = delete;
    Relock& operator=(const Relock&) = delete;

   private:
    YieldingLock& lock_;
  };

  std::mutex mutex_;
  // Not a condition variable: a forked child may destroy it while threads of the parent, which do
  // not exist in the child, wait for it.
  std::atomic<std::uint32_t> ended_{0};
};

}  // namespace shmtensor
