#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace shmtensor {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

}  // namespace

// Not FUTEX_PRIVATE: the word is stored in a file that other processes map at other addresses.
void wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

// FUTEX_WAIT measures a relative time by the monotonic clock.
WaitEnd wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::uint64_t nanoseconds) noexcept {
  const timespec time{static_cast<time_t>(nanoseconds / kSecond),
                      static_cast<long>(nanoseconds % kSecond)};
  if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0) == 0 ||
      errno == EAGAIN) {
    return WaitEnd::woken;
  }
  return errno == EINTR ? WaitEnd::interrupted : WaitEnd::timed_out;
}

std::uint32_t wake(Atomic<std::uint32_t>& word, std::uint32_t count) noexcept {
  const std::uint32_t most = std::min<std::uint32_t>(count, INT_MAX);
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0);
  return woken > 0 ? static_cast<std::uint32_t>(woken) : 0;
}

void wake_all(Atomic<std::uint32_t>& word) noexcept { wake(word, INT_MAX); }

}  // namespace shmtensor
