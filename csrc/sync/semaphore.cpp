#include "sync/semaphore.hpp"

#include <algorithm>
#include <utility>

#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"
#include "sync/waiting.hpp"

namespace shmtensor::sync {

void Semaphore::create(std::span<std::byte> block, std::uint32_t initial, bool bounded) {
  sync::create<SemaphoreWords>(block, [&](SemaphoreWords& words) {
    words.initial.store(initial);
    words.base.store(initial);
    words.bounded.store(bounded ? 1 : 0);
  });
}

template <typename Change>
Taken Semaphore::with_lock(SlotNumber slot, std::chrono::nanoseconds time, Change&& change) {
  OwnerLock lock(words_.lock);
  if (!lock.try_lock_briefly(slot) &&
      (time.count() == 0 || !lock.lock_within(slot, std::min(time, kSlice)))) {
    return Taken::locked;
  }
  const OwnerLockGuard guard(lock);
  return std::forward<Change>(change)();
}

// Each change is one store: that of a share, or that of the base.
Taken Semaphore::acquire(SlotNumber slot, std::chrono::nanoseconds time) noexcept {
  return with_lock(slot, time, [&] {
    const std::uint32_t base = words_.base.load();
    const std::uint32_t owned_now = owned();
    if (base <= owned_now) return Taken::none;
    if (owned_now >= words_.initial.load() || !own_one(slot)) words_.base.store(base - 1);
    return Taken::done;
  });
}

void Semaphore::wait(std::chrono::nanoseconds time) noexcept {
  sleep_until(words_.waiters, [this] { return value() != 0; }, time);
}

Taken Semaphore::release(SlotNumber slot, std::uint32_t units,
                         std::chrono::nanoseconds time) noexcept {
  const Taken result = with_lock(slot, time, [&] {
    const bool bounded = words_.bounded.load() != 0;
    const std::uint64_t wanted = std::uint64_t{value()} + units;
    // After the value: a unit that came back has been noted before.
    const std::uint64_t most =
        bounded ? std::uint64_t{words_.initial.load()} + words_.returned.load() : kMost;
    if (wanted > most) return Taken::none;
    const std::uint32_t left = units - return_owned(slot, units);
    if (left == 0) return Taken::done;
    const std::uint32_t base = words_.base.load();
    const std::uint32_t initial = words_.initial.load();
    const std::uint32_t room = bounded ? initial - std::min(base, initial) : left;
    words_.base.store(base + std::min(left, room));
    if (left > room) words_.returned.fetch_sub(left - room);
    return Taken::done;
  });
  if (result == Taken::done) WaitFlag(words_.waiters).notify(units);
  return result;
}

// The base first: if this process is killed in between, the manager returns as many units. Until
// then the value is too small: a process that has read it sleeps beside a unit.
Taken Semaphore::disown(SlotNumber slot, std::chrono::nanoseconds time) noexcept {
  const Taken result = with_lock(slot, time, [&] {
    for (Word& word : used()) {
      const Share share(word.load());
      if (share.slot() != slot || share.count() == 0) continue;
      words_.base.store(words_.base.load() - share.count());
      word.store(0);
    }
    return Taken::done;
  });
  if (result == Taken::done) WaitFlag(words_.waiters).notify_everyone();
  return result;
}

void Semaphore::pass_wakeup_on() noexcept { WaitFlag(words_.waiters).notify(1); }

// Without the lock, the words are of different instants.
std::uint32_t Semaphore::value() const noexcept {
  const std::uint32_t owned_now = owned();
  return words_.base.load() - std::min(owned_now, words_.base.load());
}

bool Semaphore::owns_any(SlotNumber slot) const noexcept {
  return std::ranges::any_of(used(), [slot](const Word& word) {
    const Share share(word.load());
    return share.slot() == slot && share.count() != 0;
  });
}

std::uint32_t Semaphore::owned() const noexcept {
  std::uint32_t sum = 0;
  for (const Word& word : used()) sum += Share(word.load()).count();
  return sum;
}

// Returns false if all shares are in use, as never in intact memory: a share has a unit at least.
bool Semaphore::own_one(SlotNumber slot) noexcept {
  Word* free = nullptr;
  for (Word& word : used()) {
    const Share share(word.load());
    if (share.count() == 0) {
      free = &word;
    } else if (share.slot() == slot) {
      word.store(share.with(share.count() + 1).bits());
      return true;
    }
  }
  if (free == nullptr) {
    const std::uint32_t count = words_.used.load();
    if (count >= shares_.size()) return false;
    words_.used.store(count + 1);
    free = &shares_[count];
  }
  free->store(Share(slot, 1).bits());
  return true;
}

// The manager may clear the share of another process, which has died, at the same time.
std::uint32_t Semaphore::return_owned(SlotNumber slot, std::uint32_t most) noexcept {
  std::uint32_t left = most;
  for (const bool own : {true, false}) {
    for (Word& word : used()) {
      std::uint64_t bits = word.load();
      while (left != 0 && Share(bits).count() != 0 && (Share(bits).slot() == slot) == own) {
        const std::uint32_t units = std::min(left, Share(bits).count());
        const Share less = Share(bits).with(Share(bits).count() - units);
        if (!word.compare_exchange_strong(bits, less.bits())) continue;
        left -= units;
        break;
      }
    }
  }
  return most - left;
}

// A unit may have been meant for another process, which releases it later: a bounded semaphore
// accepts that. It is noted first: if the manager is killed, it is noted twice. Once another
// process has released the last unit of a share, a third one may use the word.
void Semaphore::repair(const SlotSet& dead) noexcept {
  const auto is_dead = [&](Share share) { return share.count() != 0 && dead.has(share.slot()); };
  for (Word& word : used()) {
    std::uint64_t bits = word.load();
    if (!is_dead(Share(bits))) continue;
    words_.returned.fetch_add(Share(bits).count());
    while (is_dead(Share(bits)) && !word.compare_exchange_strong(bits, 0)) {
    }
  }
  OwnerLock lock(words_.lock);
  if (dead.has(lock.owner())) lock.unlock_for_dead();
  lock.wake_waiters();
  WaitFlag(words_.waiters).wake_everyone();
}

}  // namespace shmtensor::sync
