#include "queue/owner_lock.hpp"

#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"

namespace shmtensor {
namespace {

// An owner that runs unlocks after some hundred nanoseconds.
constexpr int kTurns = 64;
constexpr int kFewTurns = 20;

}  // namespace

bool OwnerLock::try_lock_briefly(SlotNumber slot) noexcept {
  Backoff backoff;
  for (int turn = 0; turn < kFewTurns; ++turn) {
    if (try_lock(slot)) return true;
    backoff.pause();
  }
  return false;
}

// As a mutex with three states: a thread that has waited cannot know whether others wait, too, so
// it takes the lock as awaited, or leaves it marked as awaited if its time is over: it may be the
// one that was woken.
bool OwnerLock::lock_within(SlotNumber slot, std::chrono::nanoseconds time) noexcept {
  Backoff backoff;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (word_.load(std::memory_order_relaxed) == 0 && take(slot, 0)) return true;
    backoff.pause();
  }
  const std::uint64_t end = monotonic_nanoseconds() + static_cast<std::uint64_t>(time.count());
  for (;;) {
    if (take(slot, kAwaited)) return true;
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if (seen == 0) continue;
    if ((seen & kAwaited) == 0 && !word_.compare_exchange_strong(seen, seen | kAwaited)) continue;
    const std::uint64_t now = monotonic_nanoseconds();
    if (now >= end) return false;
    if (wait_for_change(word_, seen | kAwaited, end - now) == WaitEnd::interrupted) return false;
  }
}

bool OwnerLock::unlock() noexcept {
  const std::uint32_t word = word_.exchange(0, std::memory_order_release);
  if ((word & kAwaited) != 0) wake(word_, 1);
  return word != 0;
}

void OwnerLock::unlock_for_dead() noexcept {
  word_.store(0);
  wake_waiters();
}

void OwnerLock::wake_waiters() noexcept { wake_all(word_); }

}  // namespace shmtensor
