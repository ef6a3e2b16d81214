// A descriptor that is readable while something may have happened to a queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "os/fd.hpp"
#include "os/mutex.hpp"
#include "os/poller.hpp"
#include "queue/owner_lock.hpp"
#include "queue/watch_flag.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// The event for which a descriptor waits.
struct WatchedEvent {
  WatchedQueue queue;
  OwnerLock lock;  ///< under which it happens
  WatchFlag flag;
  std::function<bool()> has_happened;
};

/// The descriptor is an epoll instance, which watches a socket whose other end the manager has. It
/// stays the same when the manager is killed, which makes it readable, and the socket is replaced.
/// A forked child has none until it opens one of its own.
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
  [[nodiscard]] bool is_open(const Session& session) const noexcept {
    return find(session) != nullptr;
  }
  /// Makes the descriptor unreadable if the event has not happened, except if the owner of the lock
  /// is stopped.
  void settle(Session& session, const WatchedEvent& event) noexcept;
  /// Makes the descriptor of this process readable for good.
  void end(const Session& session) noexcept;

 private:
  struct Ends {
    Ends() = default;
    ~Ends();
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;
    /// Return false if the program closed the descriptors, as daemons do.
    [[nodiscard]] bool are_open() const noexcept { return socket.still_is(identity); }

    Incarnation owner;  ///< the process that made them
    Mutex mutex;        ///< one thread settles at a time
    Poller poller;
    Fd socket;
    FileIdentity identity;      ///< of the socket; all epoll instances have one
    std::uint32_t changes = 0;  ///< of the flag; the wake-ups of these were read
    /// A wake-up was read, or may not have reached the socket, since this process armed the flag.
    bool must_tell = true;
    bool ended = false;
    /// Those of the parent, or that the program closed. Another thread may be using them.
    std::unique_ptr<Ends> former;
  };
  enum class Settled : std::uint8_t { yes, awaits_wakeup, has_no_manager };

  [[nodiscard]] Ends* find(const Session& session) const noexcept {
    Ends* const ends = ends_.load();
    return ends != nullptr && ends->owner == session.incarnation() ? ends : nullptr;
  }
  [[nodiscard]] bool has_open_ends(const Session& session) const;
  static void connect(Ends& ends, Session& session, const WatchedQueue& queue);
  [[nodiscard]] static Settled try_settle(Ends& ends, Session& session, const WatchedEvent& event);

  std::atomic<Ends*> ends_{nullptr};
};

}  // namespace shmtensor
