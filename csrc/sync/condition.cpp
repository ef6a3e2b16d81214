#include "sync/condition.hpp"

#include <climits>
#include <optional>

#include "base/error.hpp"
#include "os/futex.hpp"
#include "sync/waiting.hpp"

namespace shmtensor::sync {

/// slot + 1:16 | threads that wait:24 | of them notified:24. A word without threads is free.
struct Condition::Threads {
  std::uint32_t owner = 0;  ///< slot + 1
  std::uint32_t waiting = 0;
  std::uint32_t notified = 0;

  static Threads of(std::uint64_t bits) noexcept {
    return {.owner = static_cast<std::uint32_t>(bits >> 48),
            .waiting = static_cast<std::uint32_t>(bits >> 24) & 0xff'ffff,
            .notified = static_cast<std::uint32_t>(bits) & 0xff'ffff};
  }
  [[nodiscard]] std::uint64_t bits() const noexcept {
    return std::uint64_t{owner} << 48 | std::uint64_t{waiting} << 24 | notified;
  }
};

// A thread does not join those of which one was notified before: it might take the notification,
// and the other would sleep on. So its process has a further word, of the first kMaxSlots only:
// then there is always one for a process without any.
std::size_t Condition::enter(SlotNumber slot) {
  const std::uint32_t owner = slot + 1u;
  const std::span<WaitingProcess> known = used();
  std::size_t place = known.size();
  std::optional<std::size_t> notified;
  for (std::size_t i = 0; i < known.size(); ++i) {
    std::uint64_t bits = known[i].threads.load();
    Threads threads = Threads::of(bits);
    if (threads.waiting == 0) {
      place = std::min(place, i);
      continue;
    }
    if (threads.owner != owner) continue;
    while (threads.notified == 0) {
      ++threads.waiting;
      if (known[i].threads.compare_exchange_strong(bits, threads.bits())) return i;
      threads = Threads::of(bits);
    }
    notified = i;
  }
  if (place >= kMaxSlots && notified) {
    known[*notified].threads.fetch_add(Threads{.waiting = 1}.bits());
    return *notified;
  }
  if (place >= processes_.size()) throw SessionError("a condition is damaged");
  if (place == known.size()) words_.used.store(static_cast<std::uint32_t>(place) + 1);
  processes_[place].threads.store(Threads{.owner = owner, .waiting = 1}.bits());
  return place;
}

bool Condition::is_notified(std::size_t place) const noexcept {
  return Threads::of(processes_[place].threads.load()).notified != 0;
}

void Condition::sleep(std::size_t place, std::chrono::nanoseconds time) noexcept {
  if (spin_until([&] { return is_notified(place); })) return;
  const Atomic<std::uint32_t>& wakes = processes_[place].wakes;
  const std::uint32_t before = wakes.load();
  const auto most = std::min(time, kSlice).count();
  if (most <= 0 || is_notified(place)) return;
  wait_for_change(wakes, before, static_cast<std::uint64_t>(most));
}

bool Condition::leave(std::size_t place) noexcept {
  Atomic<std::uint64_t>& word = processes_[place].threads;
  std::uint64_t bits = word.load();
  for (;;) {
    Threads threads = Threads::of(bits);
    const bool notified = threads.notified != 0;
    --threads.waiting;
    if (notified) --threads.notified;
    if (word.compare_exchange_strong(bits, threads.bits())) return notified;
  }
}

void Condition::wake_threads(WaitingProcess& process, std::uint32_t threads) noexcept {
  process.wakes.fetch_add(1);
  wake(process.wakes, threads);
}

bool Condition::notify_one(WaitingProcess& process, const SlotSet& dead) noexcept {
  std::uint64_t bits = process.threads.load();
  for (;;) {
    Threads threads = Threads::of(bits);
    if (threads.waiting <= threads.notified || dead.has(threads.owner - 1)) return false;
    ++threads.notified;
    if (process.threads.compare_exchange_strong(bits, threads.bits())) break;
  }
  wake_threads(process, 1);
  return true;
}

std::uint32_t Condition::notify(std::uint32_t threads) noexcept {
  const std::span<WaitingProcess> known = used();
  if (known.empty()) return 0;
  std::uint32_t count = 0;
  std::size_t next = words_.next.load() % known.size();
  for (std::size_t missed = 0; count < threads && missed < known.size();) {
    if (notify_one(known[next], {})) {
      ++count;
      missed = 0;
    } else {
      ++missed;
    }
    next = (next + 1) % known.size();
  }
  words_.next.store(static_cast<std::uint32_t>(next));
  return count;
}

// Given away first: if the manager is killed, the next one does so again, and a thread is woken
// that need not be.
void Condition::give_away(WaitingProcess& process, const SlotSet& dead) noexcept {
  std::uint64_t bits = process.threads.load();
  std::uint32_t given = 0;
  do {  // a process that does not know of the death may notify it once more
    if (!dead.has(Threads::of(bits).owner - 1)) return;  // a living one has taken the free word
    for (WaitingProcess& other : used()) {
      while (given < Threads::of(bits).notified && notify_one(other, dead)) ++given;
    }
    given = Threads::of(bits).notified;
  } while (!process.threads.compare_exchange_strong(bits, 0));
}

void Condition::repair(const SlotSet& dead) noexcept {
  for (WaitingProcess& process : used()) {
    if (dead.has(Threads::of(process.threads.load()).owner - 1)) {
      give_away(process, dead);
    } else {
      wake_threads(process, INT_MAX);  // who notified them may have been killed
    }
  }
}

}  // namespace shmtensor::sync
