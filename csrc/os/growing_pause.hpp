// The pauses of a thread that polls memory which is changed without notice.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace shmtensor {

/// Sleeps that grow from 50 microseconds to a millisecond.
class GrowingPause {
 public:
  /// Sleeps for so many nanoseconds at most. Returns false if a signal ended the sleep.
  bool sleep(std::uint64_t most) noexcept {
    const timespec time{0, static_cast<long>(std::min(next_, most))};
    next_ = std::min(next_ + next_ / 4, kLongest);
    return ::nanosleep(&time, nullptr) == 0;
  }

 private:
  static constexpr std::uint64_t kLongest = 1'000'000;

  std::uint64_t next_ = 50'000;
};

}  // namespace shmtensor
