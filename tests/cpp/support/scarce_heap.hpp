// A heap that a test exhausts.
#pragma once

#include <cstdint>

namespace shmtensor::testing {

/// While it exists, `new` succeeds that many more times in this thread, and then throws
/// std::bad_alloc.
class ScarceHeap {
 public:
  explicit ScarceHeap(std::uint64_t left) noexcept;
  ~ScarceHeap();
  ScarceHeap(const ScarceHeap&) = delete;
  ScarceHeap& operator=(const ScarceHeap&) = delete;
};

}  // namespace shmtensor::testing
