// A lock that its holder releases during long system calls.
#pragma once

#include <cstdint>
#include <utility>

#include "base/atomic.hpp"
#include "base/thread_annotations.hpp"
#include "os/futex.hpp"
#include "os/plain_mutex.hpp"

namespace shmtensor {

/// Protects the owner's bookkeeping of an arena. It is held for microseconds. Creating or freeing
/// pages can take seconds in the kernel, and is done in `unlocked`, on extents that the holder has
/// marked. For LockGuard.
class CAPABILITY("lock") YieldingLock {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

  /// Runs `work` without the lock, then locks again, also if `work` throws. The bookkeeping may
  /// have changed in that time.
  template <typename Work>
  void unlocked(Work&& work) REQUIRES(this) {
    const Unlocked scope(*this);
    std::forward<Work>(work)();
  }

  /// Releases the lock until `unlocked` of another thread ends, or for a moment.
  void wait() REQUIRES(this) {
    const std::uint32_t seen = ended_.load();
    unlock();
    wait_for_change(ended_, seen);
    lock();
  }

 private:
  class SCOPED_CAPABILITY Unlocked {
   public:
    explicit Unlocked(YieldingLock& lock) RELEASE(lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() RELEASE() {
      lock_.lock();
      lock_.ended_.fetch_add(1);
      wake_all(lock_.ended_);
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    YieldingLock& lock_;
  };

  PlainMutex mutex_;
  // Not a condition variable: a forked child may destroy it while threads of the parent, which do
  // not exist in the child, wait for it.
  Atomic<std::uint32_t> ended_{0};
};

}  // namespace shmtensor
