// Waits for a queue: by spinning, in the kernel, or by a descriptor.
#include <algorithm>

#include "channel/channel_call.hpp"
#include "channel/queue.hpp"
#include "channel/spin_then_sleep.hpp"
#include "os/fault_point.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

using std::chrono::nanoseconds;

}  // namespace

void Queue::prepare(Attempt attempt, ChannelCall& call, nanoseconds time) {
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
    case Attempt::ending:
      return call.wait_for_end(header_.tail, time);
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::ring:
      return call.make_ring();
    case Attempt::pipe:
      for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
        if (lacks_pipe(event)) watches_[index(event)].fetch(session_, watched(event));
      }
      return;
    case Attempt::done:
    case Attempt::shut_down:
    case Attempt::closed:
    case Attempt::no_reader:
      return;
  }
}

template <typename Ready>
void Queue::wait(Atomic<std::uint32_t>& word, const QueueEnd& other, Ready&& ready,
                 nanoseconds time) noexcept {
  const int processor = other.processor.load(std::memory_order_relaxed);
  spin_then_sleep(session_, spin_, word, processor, [&] { return is_closed() || ready(); }, time);
}

void Queue::wait_until_done(nanoseconds time) noexcept {
  const int processor = header_.head.processor.load(std::memory_order_relaxed);
  const bool was_closed = is_closed();
  spin_then_sleep(
      session_, spin_, header_.joiners, processor,
      [&] { return all_done() || (is_closed() && !was_closed); }, time);
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
          .pipe = header_.pipe(event),
          .has_happened = [this, event] { return has_happened(event); }};
}

bool Queue::lacks_pipe(QueueEvent event) {
  return header_.pipe(event).load() != 0 && WatchFlag(header_.watch(event)).is_armed() &&
         watches_[index(event)].lacks_pipe(session_, watched(event));
}

void Queue::wake_everyone(QueueEvent event) noexcept {
  WaitFlag(header_.waiters(event)).notify_everyone();
  if (header_.pipe(event).load() != 0) {
    session_.manager().wake_watchers({.arena = arena_, .block = block_, .event = event});
  }
}

void Queue::pass_wakeup_on() noexcept {
  WaitFlag(header_.getters).notify(1);
  WaitFlag(header_.putters).notify(1);
}

}  // namespace shmtensor
