// As csrc/os/plain_mutex.hpp; a thread that waits for a mutex lets the others go on.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"
#include "os/backoff.hpp"
#include "os/thread_number.hpp"

namespace shmtensor {

class PlainMutex {
 public:
  void lock() {
    while (!try_lock()) pause_processor();
  }
  bool try_lock() {
    std::uint32_t free = 0;
    return owner_.compare_exchange_strong(free, 1, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() { owner_.store(0, std::memory_order_release); }

 private:
  Atomic<std::uint32_t> owner_{0};
};

class PlainRecursiveMutex {
 public:
  void lock() {
    while (!try_lock()) pause_processor();
  }
  bool try_lock() {
    if (depth_ != 0 && owner_ == thread_number()) return ++depth_ != 0;
    if (!mutex_.try_lock()) return false;
    owner_ = thread_number();
    depth_ = 1;
    return true;
  }
  void unlock() {
    if (--depth_ == 0) mutex_.unlock();
  }

 private:
  PlainMutex mutex_;
  std::uint32_t owner_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace shmtensor
