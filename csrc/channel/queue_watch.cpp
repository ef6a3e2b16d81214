#include "channel/queue_watch.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/report.hpp"
#include "os/fault_point.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr auto kLockTime = std::chrono::milliseconds(100);
constexpr int kWakeupMilliseconds = 100;
constexpr int kTurns = 3;

// Returns false if the manager has closed its end.
bool read_wakeups(const Fd& socket) noexcept {
  try {
    std::array<std::byte, 8> wakeup{};
    for (;;) {
      const std::optional<Received> received = receive_message(socket, wakeup, Wait::never);
      if (!received) return true;
      if (received->size == 0) return false;
    }
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

QueueWatch::Ends::~Ends() {
  if (!socket || are_open()) return;
  poller.forget();
  static_cast<void>(socket.release());
}

QueueWatch::~QueueWatch() { delete ends_.load(); }

int QueueWatch::open(Session& session, const WatchedEvent& event) {
  Ends* present = ends_.load();
  if (!has_open_ends(session)) {
    auto made = std::make_unique<Ends>();
    made->owner = session.incarnation();
    made->changes = event.flag.changes();
    connect(*made, session, event.queue);
    if (ends_.compare_exchange_strong(present, made.get())) {
      made.release()->former.reset(present);
      settle(session, event);
    }
  }
  return find(session)->poller.descriptor().get();
}

bool QueueWatch::has_open_ends(const Session& session) const {
  Ends* const ends = find(session);
  if (ends == nullptr) return false;
  const LockGuard guard(ends->mutex);
  return ends->are_open();
}

void QueueWatch::connect(Ends& ends, Session& session, const WatchedQueue& queue) {
  auto [ours, managers] = socket_pair();
  session.watch_queue(queue, managers);
  ends.poller.add(ours, 0);
  // A forked child may have the former socket open, so to close it does not remove it.
  if (ends.socket) ends.poller.remove(ends.socket);
  ends.identity = ours.identity();
  ends.socket = std::move(ours);
  ends.must_tell = true;
}

// A get that has taken a message must return it, so an error is reported and not thrown.
void QueueWatch::settle(Session& session, const WatchedEvent& event) noexcept {
  Ends& ends = *find(session);
  try {
    const LockGuard guard(ends.mutex);
    if (ends.ended || !ends.are_open()) return;
    for (int turn = 0; turn < kTurns; ++turn) {
      switch (try_settle(ends, session, event)) {
        case Settled::yes:
          return;
        case Settled::awaits_wakeup:
          static_cast<void>(ends.poller.wait(kWakeupMilliseconds));
          ends.must_tell = true;
          if (read_wakeups(ends.socket)) break;
          [[fallthrough]];
        case Settled::has_no_manager:
          connect(ends, session, event.queue);
      }
    }
    static_cast<void>(session.wake_watchers(event.queue));  // the next call settles
  } catch (const std::exception& error) {
    report("the descriptor of a queue stays readable: ", error.what());
  }
}

void QueueWatch::end(const Session& session) noexcept {
  Ends* const ends = find(session);
  if (ends == nullptr) return;
  const LockGuard guard(ends->mutex);
  ends->ended = true;
  if (ends->are_open()) shut_down(ends->socket);
}

// With the lock, the event cannot happen. If the flag was disarmed since the last time, the manager
// was told: its wake-up is waited for without the lock, so that it does not come after the next
// one was armed.
QueueWatch::Settled QueueWatch::try_settle(Ends& ends, Session& session,
                                           const WatchedEvent& event) {
  OwnerLock lock = event.lock;
  if (!lock.lock_within(session.slot(), kLockTime)) {  // its owner is stopped: stays readable
    if (ends.must_tell) static_cast<void>(session.wake_watchers(event.queue));
    return Settled::yes;
  }
  const OwnerLockGuard guard(lock);
  WatchFlag flag = event.flag;
  if (event.has_happened()) {
    // The process that made it happen could not tell the manager, or found the flag disarmed.
    if ((flag.is_armed() || ends.must_tell) && session.wake_watchers(event.queue)) {
      ends.must_tell = false;
      flag.disarm();
    }
    return Settled::yes;
  }
  const std::uint32_t changes = flag.changes();
  if (std::exchange(ends.changes, changes) != changes) return Settled::awaits_wakeup;
  flag.arm();
  ends.must_tell = false;
  SHMTENSOR_FAULT_POINT("queue.armed");
  return read_wakeups(ends.socket) ? Settled::yes : Settled::has_no_manager;
}

}  // namespace shmtensor
