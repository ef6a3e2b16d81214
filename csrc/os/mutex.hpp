// Mutexes and their guard, with the annotations that those of libstdc++ lack.
#pragma once

#include <mutex>

#include "base/thread_annotations.hpp"
#include "os/plain_mutex.hpp"

namespace shmtensor {

template <typename Base>
class CAPABILITY("mutex") AnnotatedMutex {
 public:
  void lock() ACQUIRE() { base_.lock(); }
  bool try_lock() TRY_ACQUIRE(true) { return base_.try_lock(); }
  void unlock() RELEASE() { base_.unlock(); }

 private:
  Base base_;
};
using Mutex = AnnotatedMutex<PlainMutex>;
using RecursiveMutex = AnnotatedMutex<PlainRecursiveMutex>;

/// Holds a lock of any kind.
template <typename Lock>
class SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  /// For a lock that the thread has acquired already, by `try_lock`.
  LockGuard(Lock& lock, std::adopt_lock_t /*acquired*/) REQUIRES(lock) : lock_(lock) {}
  ~LockGuard() RELEASE() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace shmtensor
