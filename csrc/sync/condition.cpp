#include "sync/condition.hpp"

#include "base/error.hpp"
#include "os/futex.hpp"

namespace shmtensor::sync {

// What `notified` has is left: the manager may have given it to the process that used the words
// before, and did not find that it had left.
std::size_t Condition::enter(SlotNumber slot) {
  std::size_t place = processes_.size();
  const std::span<WaitingProcess> known = used();
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Share share(known[i].share.load());
    if (share.count() == 0) {
      place = i;
    } else if (share.slot() == slot) {
      known[i].share.store(share.with(share.count() + 1).bits());
      return i;
    }
  }
  if (place == processes_.size()) {
    place = known.size();
    if (place >= processes_.size()) throw SessionError("a condition is damaged");
    words_.used.store(static_cast<std::uint32_t>(place) + 1);
  }
  processes_[place].share.store(Share(slot, 1).bits());
  return place;
}

void Condition::sleep(std::size_t place, std::chrono::nanoseconds time) noexcept {
  if (spin_until([&] { return is_notified(place); })) return;
  const auto most = std::min(time, kSlice).count();
  if (most > 0) wait_for_change(processes_[place].notified, 0, static_cast<std::uint64_t>(most));
}

// The share first, then what is left of the notifications: the manager writes them in the other
// order, so one of the two finds a notification that no thread waits for.
bool Condition::leave(std::size_t place) noexcept {
  WaitingProcess& process = processes_[place];
  const Share share(process.share.load());
  const bool notified = process.notified.load() != 0;
  if (notified) process.notified.fetch_sub(1);
  process.share.store(share.with(share.count() - 1).bits());
  if (share.count() != 1) return notified;
  return process.notified.exchange(0) != 0 || notified;
}

void Condition::notify_one(WaitingProcess& process) noexcept {
  process.notified.fetch_add(1);
  wake(process.notified, 1);
}

std::uint32_t Condition::notify(std::uint32_t threads) noexcept {
  const std::span<WaitingProcess> known = used();
  if (known.empty()) return 0;
  std::uint32_t count = 0;
  std::size_t next = words_.next.load() % known.size();
  for (std::size_t missed = 0; count < threads && missed < known.size();) {
    WaitingProcess& process = known[next];
    next = (next + 1) % known.size();
    if (can_be_notified(process)) {
      notify_one(process);
      ++count;
      missed = 0;
    } else {
      ++missed;
    }
  }
  words_.next.store(static_cast<std::uint32_t>(next));
  return count;
}

void Condition::give_away(std::uint32_t notified, const SlotSet& dead) noexcept {
  for (WaitingProcess& process : used()) {
    if (dead.has(Share(process.share.load()).slot())) continue;
    while (notified != 0 && can_be_notified(process)) {
      notify_one(process);
      --notified;
      // The last thread may have left since.
      if (Share(process.share.load()).count() == 0) notified += process.notified.exchange(0);
    }
  }
}

// Given away first: if the manager is killed, the next one does so again, and a thread is woken
// that need not be.
void Condition::repair(const SlotSet& dead) noexcept {
  for (WaitingProcess& process : used()) {
    if (dead.has(Share(process.share.load()).slot())) {
      give_away(process.notified.load(), dead);
      process.notified.store(0);
      process.share.store(0);
    } else {
      wake(process.notified, process.notified.load());  // who notified it may have been killed
    }
  }
}

}  // namespace shmtensor::sync
