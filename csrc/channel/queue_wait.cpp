// Waits for a queue: by spinning, in the kernel, or by a descriptor.
#include <algorithm>

#include "channel/queue.hpp"
#include "channel/queue_call.hpp"
#include "channel/spin_then_sleep.hpp"
#include "os/fault_point.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

using std::chrono::nanoseconds;

}  // namespace

void Queue::prepare(Attempt attempt, QueueCall& call, nanoseconds time) {
  switch (attempt) {
    case Attempt::locked:
      return call.wait_for_lock(time);
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
    case Attempt::closed:
      return;
  }
}

template <typename Ready>
void Queue::wait(std::atomic<std::uint32_t>& word, const QueueEnd& other, Ready&& ready,
                 nanoseconds time) noexcept {
  const int processor = other.processor.load(std::memory_order_relaxed);
  spin_then_sleep(session_, spin_, word, processor, [&] { return is_closed() || ready(); }, time);
}

void Queue::wait_until_done(nanoseconds time) noexcept {
  wait(header_.joiners, header_.head, [this] { return all_done(); }, time);
}

// The stage, then the owners, then what can be taken: as in `take_locked`.
bool Queue::has_happened(QueueEvent event) const noexcept {
  const bool stopped = is_shut_down();
  if (event == QueueEvent::message) {
    const bool ends = stopped && !kept_.any_owned();
    if (kept_.count_returned() != 0) return true;
    return waiting() != 0 ? !kept_ || kept_.has_free() : ends;
  }
  if (stopped) return true;
  const bool ring = header_.tail.ring.load() + 1 - header_.head.ring.load() < QueueHeader::kRings;
  return ring && !is_full();
}

int Queue::watch(QueueEvent event) {
  session_.require_slot();
  QueueWatch& watch = watches_[index(event)];
  const int descriptor = watch.open(session_, watched(event));
  if (is_closed()) watch.end(session_);  // `close` may have come before it was open
  return descriptor;
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

void Queue::tell_everyone(QueueEvent event) noexcept {
  WaitFlag(header_.waiters(event)).wake_everyone();
  if (WatchFlag(header_.watch(event)).is_used()) {
    static_cast<void>(session_.wake_watchers({.arena = arena_, .block = block_, .event = event}));
  }
}

void Queue::pass_wakeup_on() noexcept {
  WaitFlag(header_.getters).notify(1);
  WaitFlag(header_.putters).notify(1);
}

}  // namespace shmtensor
