#include "sync/lock.hpp"

#include <limits>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/thread_number.hpp"

namespace shmtensor::sync {

namespace {

// The slot is in the same word: between two loads, a thread of another process with the same number
// may release the lock, and another thread of this process acquire it.
std::uint64_t this_thread(SlotNumber slot) noexcept {
  return (std::uint64_t{slot} + 1) << 32 | thread_number();
}

}  // namespace

// Only the owner writes the thread, and clears it before it unlocks. So a thread that finds itself
// there has the lock.
bool Lock::own(SlotNumber slot) noexcept {
  words_.thread.store(this_thread(slot), std::memory_order_relaxed);
  words_.depth.store(1, std::memory_order_relaxed);
  return true;
}

bool Lock::is_mine(SlotNumber slot) const noexcept {
  return words_.thread.load(std::memory_order_relaxed) == this_thread(slot) && is_owned_by(slot);
}

bool Lock::lock_again(SlotNumber slot) {
  if (!is_mine(slot)) return false;
  if (depth() == std::numeric_limits<std::uint32_t>::max()) {
    throw SessionError("a recursive lock was acquired too many times");
  }
  set_depth(depth() + 1);
  return true;
}

bool Lock::unlock_once(SlotNumber slot) noexcept {
  if (!is_mine(slot)) return false;
  set_depth(depth() - 1);
  return depth() != 0 || unlock();
}

Death Lock::read_death() noexcept {
  const Death death{.pid = words_.dead_pid.load(), .at = words_.died_at.load()};
  words_.died.store(0);
  return death;
}

// Whoever locks it next sees what is stored before.
void Lock::abandon(LockWords& words, std::int32_t pid) noexcept {
  words.dead_pid.store(pid);
  words.died_at.store(coarse_milliseconds());
  words.died.store(1);
  words.thread.store(0);
  OwnerLock(words.owner).unlock_for_dead();
}

}  // namespace shmtensor::sync
