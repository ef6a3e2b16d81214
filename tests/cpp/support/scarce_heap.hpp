// A heap that is exhausted when a test wants it.
#pragma once

#include <cstdint>

namespace shmtensor::testing {

/// While it lives, `new` answers this thread so many more times, and then throws std::bad_alloc.
class ScarceHeap {
 public:
  explicit ScarceHeap(std::uint64_t left) noexcept;
  ~ScarceHeap();
  ScarceHeap(const ScarceHeap&) = delete;
  ScarceHeap& operator=(const ScarceHeap&) = delete;
};

}  // namespace shmtensor::testing
