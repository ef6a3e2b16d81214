// One event of a queue, as a process takes part in it whose queue is watched by a descriptor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/atomic.hpp"
#include "os/fd.hpp"
#include "os/mutex.hpp"
#include "os/poller.hpp"
#include "os/ready_pipe.hpp"
#include "queue/owner_lock.hpp"
#include "queue/watch_flag.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// The event for which a descriptor waits.
struct WatchedEvent {
  WatchedQueue queue;
  OwnerLock lock;  ///< under which it happens
  WatchFlag flag;
  const Atomic<std::uint32_t>& pipe;  ///< number of the ReadyPipe
  std::function<bool()> has_happened;
};

/// Every process that uses a watched queue gets the ready pipe of the event from the manager. The
/// descriptor of a process that watches is an epoll instance with that pipe, and with a socket
/// whose other end the manager has. It stays the same when the manager is killed, which makes it
/// readable; then the process gets another pipe. A forked child has none of these until it needs
/// its own.
/// Threads: all members may be called simultaneously.
class QueueWatch {
 public:
  QueueWatch() noexcept = default;
  ~QueueWatch();
  QueueWatch(const QueueWatch&) = delete;
  QueueWatch& operator=(const QueueWatch&) = delete;

  /// Returns the descriptor; makes it if this process does not have it. Throws OsError,
  /// SessionError.
  [[nodiscard]] int open(Session& session, const WatchedEvent& event);

  /// Return true if `fetch` must be called before `raise`.
  [[nodiscard]] bool lacks_pipe(const Session& session, const WatchedEvent& event) const;
  /// Gets the ready pipe from the manager. If that fails, `raise` asks the manager.
  void fetch(Session& session, const WatchedEvent& event) noexcept;
  /// To be called with the lock after the event has happened: makes the descriptors of all
  /// processes readable.
  void raise(Session& session, const WatchedEvent& event) noexcept;

  /// Return true if descriptors may be readable although the event has not happened.
  [[nodiscard]] bool must_settle(const Session& session, const WatchedEvent& event) const;
  /// Makes them unreadable if the event has not happened, except if the owner of the lock is
  /// stopped. May wait for the manager.
  void settle(Session& session, const WatchedEvent& event) noexcept;

  /// Makes the descriptor of this object readable for good.
  void end(const Session& session) noexcept;

 private:
  /// What this process watches with.
  struct Ends {
    Ends() = default;
    ~Ends();
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;
    /// Return false if the program closed the descriptors, as daemons do.
    [[nodiscard]] bool are_open() const noexcept { return socket.still_is(identity); }

    Poller poller;
    Fd socket;
    FileIdentity identity;  ///< of the socket; all epoll instances have one
    bool closed = false;    ///< by `end`
  };
  struct State {
    Incarnation owner;    ///< the process that made it
    mutable Mutex mutex;  ///< locked after the lock of the event
    ReadyPipe pipe;
    std::uint32_t asked = 0;        ///< the number of the pipe for which the manager was asked last
    std::unique_ptr<Ends> ends;     ///< of a process that watches
    std::unique_ptr<State> former;  ///< that of the parent
  };

  [[nodiscard]] State* find(const Session& session) const noexcept {
    State* const state = state_.load();
    return state != nullptr && state->owner == session.incarnation() ? state : nullptr;
  }
  [[nodiscard]] State& make(const Session& session);
  [[nodiscard]] static bool has_open_ends(const State& state);
  static void watch(State& state, Session& session, const WatchedEvent& event);
  static void replace_pipe(State& state, ReadyPipe pipe);
  [[nodiscard]] static bool must_watch_again(const State& state, const WatchedEvent& event);
  static void settle_locked(const ReadyPipe& pipe, const WatchedEvent& event);

  Atomic<State*> state_{nullptr};
};

}  // namespace shmtensor
