// Waits for a queue: by spinning, in the kernel, or by a descriptor.
#include <algorithm>

#include "channel/queue.hpp"
#include "channel/queue_call.hpp"
#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

using std::chrono::nanoseconds;

// After this time a process that waits checks whether there is a manager: a killed one repairs
// nothing.
constexpr nanoseconds kSlice = std::chrono::seconds(1);

}  // namespace

void Queue::prepare(Attempt attempt, QueueCall& call, nanoseconds time) {
  switch (attempt) {
    case Attempt::locked:
      if (OwnerLock(call.end_->lock).lock_within(session_.slot(), std::min(time, kLockSlice))) {
        call.locked_ = call.end_;
      } else {
        session_.ensure_manager();
      }
      return;
    case Attempt::empty:
      return wait(
          header_.getters, header_.tail, [this] { return has_happened(QueueEvent::message); },
          time);
    case Attempt::full:
      return wait(
          header_.putters, header_.head, [this] { return has_happened(QueueEvent::room); }, time);
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::ring:
      return call.make_ring();
    case Attempt::done:
    case Attempt::shut_down:
      return;
  }
}

template <typename Ready>
void Queue::wait(std::atomic<std::uint32_t>& word, const QueueEnd& other, Ready&& ready,
                 nanoseconds time) noexcept {
  const std::uint64_t begin = monotonic_nanoseconds();
  const std::uint64_t window = spin_.window(begin, other.processor.load(std::memory_order_relaxed));
  if (window != 0) {
    const std::uint64_t end =
        begin + std::min(window, static_cast<std::uint64_t>(std::max(time.count(), 0L)));
    do {
      for (int i = 0; i < 8; ++i) {
        if (ready()) return spin_.note_spun();
        pause_processor();
      }
    } while (monotonic_nanoseconds() < end);
  }
  WaitFlag flag(word);
  const std::uint32_t announced = flag.announce();
  SHMTENSOR_FAULT_POINT("queue.announced");
  if (ready()) return;
  const WaitEnd end = flag.sleep(announced, std::min(time, kSlice));
  spin_.note_slept(monotonic_nanoseconds() - begin);
  if (end == WaitEnd::timed_out) session_.ensure_manager();
}

void Queue::wait_until_done(nanoseconds time) noexcept {
  wait(header_.joiners, header_.head, [this] { return all_done(); }, time);
}

bool Queue::has_happened(QueueEvent event) const noexcept {
  if (is_shut_down()) return true;
  if (event == QueueEvent::message) return size() != 0;
  const bool ring = header_.tail.ring.load() + 1 - header_.head.ring.load() < QueueHeader::kRings;
  return ring && (limit() == 0 || size() < limit());
}

int Queue::watch(QueueEvent event) {
  session_.require_slot();
  return watches_[index(event)].open(session_, watched(event));
}

void Queue::settle(QueueEvent event) noexcept {
  watches_[index(event)].settle(session_, watched(event));
}

WatchedEvent Queue::watched(QueueEvent event) noexcept {
  QueueEnd& end = event == QueueEvent::message ? header_.tail : header_.head;
  return {.queue = {.arena = arena_, .block = block_, .event = event},
          .lock = OwnerLock(end.lock),
          .flag = WatchFlag(header_.watch(event)),
          .has_happened = [this, event] { return has_happened(event); }};
}

// With the lock under which the event happened.
void Queue::tell_watchers(QueueEvent event) noexcept {
  WatchFlag flag(header_.watch(event));
  if (!flag.is_armed()) return;
  SHMTENSOR_FAULT_POINT("queue.counted");
  if (session_.wake_watchers({.arena = arena_, .block = block_, .event = event})) flag.disarm();
  SHMTENSOR_FAULT_POINT("queue.disarmed");
}

void Queue::pass_wakeup_on() noexcept {
  WaitFlag(header_.getters).notify(1);
  WaitFlag(header_.putters).notify(1);
}

}  // namespace shmtensor
