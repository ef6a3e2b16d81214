// A lock that its holder gives away while the kernel works.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "os/futex.hpp"

namespace shmtensor {

/// Guards the owner's bookkeeping of an arena. It is held for microseconds: to make or free pages
/// takes the kernel seconds, and is done in `unlocked`, on what the holder has marked as its own.
/// Meets the standard's requirements for std::lock_guard and std::unique_lock.
class YieldingLock {
 public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  /// Runs `work` without the lock, then takes it again, also if `work` throws. Whatever the caller
  /// knew of the bookkeeping may have changed.
  template <typename Work>
  void unlocked(Work&& work) {
    unlock();
    const Relock relock(*this);
    std::forward<Work>(work)();
  }

  /// Gives the lock away until another thread's `unlocked` ends, or for a moment.
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
  // Not a condition variable: a forked child may destroy it while the parent's threads, which do
  // not exist there, wait for it.
  std::atomic<std::uint32_t> ended_{0};
};

}  // namespace shmtensor
