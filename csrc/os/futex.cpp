#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "os/clock.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

timespec time_of(std::uint64_t nanoseconds) noexcept {
  return {static_cast<time_t>(nanoseconds / kSecond), static_cast<long>(nanoseconds % kSecond)};
}

// futex_waitv(2), which older headers lack; the number is that of every architecture.
constexpr long kFutexWaitv = 449;
constexpr std::uint32_t kSize32 = 2;  // FUTEX2_SIZE_U32, and not FUTEX2_PRIVATE

struct FutexWait {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags = kSize32;
  std::uint32_t reserved = 0;

  FutexWait(const Atomic<std::uint32_t>& word, std::uint32_t expected) noexcept
      : value(expected), address(reinterpret_cast<std::uintptr_t>(&word)) {}
};

Atomic<bool> g_lacks_waitv{false};

}  // namespace

// Not FUTEX_PRIVATE: the word is stored in a file that other processes map at other addresses.
void wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

// FUTEX_WAIT measures a relative time by the monotonic clock.
WaitEnd wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::uint64_t nanoseconds) noexcept {
  const timespec time = time_of(nanoseconds);
  if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0) == 0 ||
      errno == EAGAIN) {
    return WaitEnd::woken;
  }
  return errno == EINTR ? WaitEnd::interrupted : WaitEnd::timed_out;
}

WaitEnd wait_for_either(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        const Atomic<std::uint32_t>& other, std::uint32_t other_expected,
                        std::uint64_t nanoseconds) noexcept {
  if (!g_lacks_waitv.load(std::memory_order_relaxed)) {
    const std::array<FutexWait, 2> waits{FutexWait(word, expected), {other, other_expected}};
    const timespec end = time_of(monotonic_nanoseconds() + nanoseconds);
    const long index = ::syscall(kFutexWaitv, waits.data(), waits.size(), 0, &end, CLOCK_MONOTONIC);
    if (index >= 0 || errno == EAGAIN) return WaitEnd::woken;
    if (errno == EINTR) return WaitEnd::interrupted;
    if (errno == ETIMEDOUT) return WaitEnd::timed_out;
    g_lacks_waitv.store(true, std::memory_order_relaxed);  // or a seccomp profile does not know it
  }
  return wait_for_change(word, expected, nanoseconds);
}

std::uint32_t wake(Atomic<std::uint32_t>& word, std::uint32_t count) noexcept {
  const std::uint32_t most = std::min<std::uint32_t>(count, INT_MAX);
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0);
  return woken > 0 ? static_cast<std::uint32_t>(woken) : 0;
}

void wake_all(Atomic<std::uint32_t>& word) noexcept { wake(word, INT_MAX); }

}  // namespace shmtensor
