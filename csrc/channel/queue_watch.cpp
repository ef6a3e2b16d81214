#include "channel/queue_watch.hpp"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "base/report.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr auto kLockTime = std::chrono::milliseconds(100);

}  // namespace

QueueWatch::Ends::~Ends() {
  if (!socket || are_open()) return;
  poller.forget();
  static_cast<void>(socket.release());
}

QueueWatch::~QueueWatch() { delete state_.load(); }

QueueWatch::State& QueueWatch::make(const Session& session) {
  if (State* const state = find(session)) return *state;
  State* present = state_.load();
  auto made = std::make_unique<State>();
  made->owner = session.incarnation();
  if (state_.compare_exchange_strong(present, made.get())) made.release()->former.reset(present);
  return *find(session);
}

int QueueWatch::open(Session& session, const WatchedEvent& event) {
  State& state = make(session);
  if (!has_open_ends(state)) {
    watch(state, session, event);
    settle(session, event);
  }
  const LockGuard guard(state.mutex);
  return state.ends->poller.descriptor().get();
}

bool QueueWatch::has_open_ends(const State& state) {
  const LockGuard guard(state.mutex);
  return state.ends != nullptr && state.ends->are_open();
}

void QueueWatch::watch(State& state, Session& session, const WatchedEvent& event) {
  auto [ours, managers] = socket_pair();
  ReadyPipe pipe = session.manager().watch_queue(event.queue, managers);
  const LockGuard guard(state.mutex);
  if (state.ends == nullptr || !state.ends->are_open()) state.ends = std::make_unique<Ends>();
  Ends& ends = *state.ends;
  ends.poller.add(ours, 0);
  // A forked child may have the former socket open, so to close it does not remove it.
  if (ends.socket) ends.poller.remove(ends.socket);
  ends.identity = ours.identity();
  ends.socket = std::move(ours);
  replace_pipe(state, std::move(pipe));
}

void QueueWatch::replace_pipe(State& state, ReadyPipe pipe) {
  const bool watches = state.ends != nullptr && state.ends->are_open();
  if (watches && pipe.number() != 0) state.ends->poller.add(pipe.descriptor(), 0);
  if (watches && state.pipe.is_open()) state.ends->poller.remove(state.pipe.descriptor());
  state.pipe = std::move(pipe);
}

bool QueueWatch::lacks_pipe(const Session& session, const WatchedEvent& event) const {
  const std::uint32_t number = event.pipe.load();
  if (number == 0) return false;
  const State* const state = find(session);
  if (state == nullptr) return true;
  const LockGuard guard(state->mutex);
  return state->asked != number || (state->pipe.number() == number && !state->pipe.is_open());
}

void QueueWatch::fetch(Session& session, const WatchedEvent& event) noexcept {
  try {
    State& state = make(session);
    const std::uint32_t number = event.pipe.load();
    ReadyPipe pipe;
    try {
      pipe = session.manager().ready_pipe(event.queue);
    } catch (const std::exception& error) {
      report("the manager must wake those that watch a queue: ", error.what());
    }
    const LockGuard guard(state.mutex);
    state.asked = number;
    replace_pipe(state, std::move(pipe));
  } catch (const std::exception& error) {
    report("cannot watch a queue: ", error.what());
  }
}

// A process that gets another pipe meanwhile, from another manager, settles with the lock
// afterwards.
void QueueWatch::raise(Session& session, const WatchedEvent& event) noexcept {
  if (State* const state = find(session)) {
    const LockGuard guard(state->mutex);
    if (state->pipe.number() == event.pipe.load() && state->pipe.is_open()) {
      return state->pipe.raise();
    }
  }
  session.manager().wake_watchers(event.queue);
}

bool QueueWatch::must_settle(const Session& session, const WatchedEvent& event) const {
  const std::uint32_t number = event.pipe.load();
  if (number == 0 || event.has_happened()) return false;
  const State* const state = find(session);
  if (state == nullptr) return !event.flag.is_armed();
  const LockGuard guard(state->mutex);
  const Ends* const ends = state->ends.get();
  const bool watches = ends != nullptr && !ends->closed && ends->are_open();
  if (event.flag.is_armed()) return watches && ends->poller.is_ready();
  // If the manager knows no pipe, no process watches any more.
  return watches || state->asked != number || state->pipe.number() == number;
}

// A get that has taken a message must return it, so an error is reported and not thrown.
void QueueWatch::settle(Session& session, const WatchedEvent& event) noexcept {
  try {
    if (State* const state = find(session); state != nullptr && must_watch_again(*state, event)) {
      watch(*state, session, event);
    } else if (lacks_pipe(session, event)) {
      fetch(session, event);
    }
    State& state = make(session);
    OwnerLock lock = event.lock;
    // Its owner is stopped: the descriptors stay readable.
    if (!lock.lock_within(session.slot(), kLockTime)) return;
    const OwnerLockGuard locked(lock);
    const LockGuard guard(state.mutex);
    if (state.pipe.number() == event.pipe.load()) settle_locked(state.pipe, event);
  } catch (const std::exception& error) {
    report("the descriptor of a queue stays readable: ", error.what());
  }
}

bool QueueWatch::must_watch_again(const State& state, const WatchedEvent& event) {
  const LockGuard guard(state.mutex);
  const Ends* const ends = state.ends.get();
  if (ends == nullptr || ends->closed || !ends->are_open()) return false;
  return is_readable(ends->socket) || state.pipe.number() != event.pipe.load();
}

// Also without the lock, messages are returned and a queue is shut down. The manager is notified
// then, and its byte may be read here before it could be seen by others: so the event is looked for
// again.
void QueueWatch::settle_locked(const ReadyPipe& pipe, const WatchedEvent& event) {
  WatchFlag flag = event.flag;
  if (!event.has_happened()) {
    pipe.lower();
    flag.arm();
    if (!event.has_happened()) return;
  }
  if (!flag.is_armed() && pipe.is_raised()) return;
  flag.disarm();
  pipe.raise();
}

void QueueWatch::end(const Session& session) noexcept {
  State* const state = find(session);
  if (state == nullptr) return;
  const LockGuard guard(state->mutex);
  if (state->ends == nullptr || !state->ends->are_open()) return;
  state->ends->closed = true;
  shut_down(state->ends->socket);
}

}  // namespace shmtensor
