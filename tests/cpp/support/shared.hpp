// Memory that a test shares with its forked children.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <new>

#include "base/error.hpp"
#include "support/wait.hpp"

namespace shmtensor::testing {

/// One T, created before the fork, in memory of both sides.
template <typename T>
class Shared {
 public:
  Shared() {
    void* place =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw_os("map a test's shared memory");
    value_ = new (place) T{};
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

 private:
  T* value_;
};

/// A number that only grows, with which the sides of a test take turns.
class Turn {
 public:
  void set(int value) noexcept { value_.store(value, std::memory_order_release); }
  [[nodiscard]] int get() const noexcept { return value_.load(std::memory_order_acquire); }
  [[nodiscard]] bool reaches(int value) const {
    return eventually([&] { return get() >= value; });
  }

 private:
  std::atomic<int> value_{0};
};

}  // namespace shmtensor::testing
