// What a process asks of, and reports to, the manager of its session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arena/member.hpp"
#include "arena/session_memory.hpp"
#include "cuda/device_data_segment.hpp"
#include "manager/connection.hpp"
#include "os/mutex.hpp"
#include "os/ready_pipe.hpp"
#include "os/spin_lock.hpp"
#include "session/mapped_arenas.hpp"

namespace shmtensor {

/// After the manager was killed, a request starts the next one, and sends it what this process has.
/// Every request throws SessionError if no manager answers it, or this process has no slot.
/// Threads: all members except those for forks may be called simultaneously.
class ManagerClient final : public cuda::ChunkKeeper, public DrainRequests {
 public:
  /// `program` is the path of the manager.
  ManagerClient(Connection connection, const SessionMemory& memory, const Member& member,
                std::uint32_t incarnation, MappedArenas& arenas, std::string program);

  /// How often a request, or a process that joins, tries.
  static constexpr int kAttempts = 5;
  /// Notices that wait for the connection. In place of more, the manager tries to free all blocks.
  static constexpr std::size_t kMostNotices = 64;
  [[noreturn]] static void throw_connection_closed(const SessionId& id);

  [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }

  /// If the manager was killed, starts another one and sends it the state of this process. Called
  /// after a send, after an arena is attached, before an arena is closed and before the process
  /// ends, so that messages outlive their sender.
  void ensure() noexcept;

  /// Has the connection locked. A thread that finds it locked leaves its notices to the one that
  /// has it, which sends them afterwards.
  class SCOPED_CAPABILITY Guard {
   public:
    explicit Guard(ManagerClient& client) ACQUIRE(client.mutex_) : client_(client) {
      client_.mutex_.lock();
    }
    ~Guard() RELEASE() {
      client_.mutex_.unlock();
      client_.send_notices();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ManagerClient& client_;
  };

  /// Has the manager keep an arena of this process open while it has a block.
  void register_arena(const Segment& segment);
  void retire_arena(ArenaNumber number);
  /// Returns the file of an arena; empty if there is none.
  [[nodiscard]] Fd find_arena(ArenaNumber number);
  /// Has the manager assign a slot to a child, which will be at the other end of the socket.
  [[nodiscard]] Incarnation reserve_child_slot(const Fd& socket);

  [[nodiscard]] Statistics statistics();
  /// Cancels tickets of the whole session of at least that age, and releases its unused memory.
  /// Returns the number of tickets.
  std::uint64_t cancel_tickets(std::uint64_t older_than_milliseconds);

  /// Returns the ready pipe of an event of a queue, which the manager keeps as long as this
  /// process, or another one that watches the queue, has its socket open. Throws OsError.
  [[nodiscard]] ReadyPipe watch_queue(const WatchedQueue& queue, const Fd& socket);
  /// Returns the ready pipe for a process that does not watch; empty if no process watches. Throws
  /// OsError.
  [[nodiscard]] ReadyPipe ready_pipe(const WatchedQueue& queue);
  /// Lets the manager raise the ready pipe. Never waits for it.
  void wake_watchers(const WatchedQueue& queue) noexcept;

  void drain(ArenaNumber arena, BlockNumber block) noexcept override;
  void keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
            const Fd& descriptor) override;
  [[nodiscard]] Fd fetch(ArenaNumber arena, std::uint32_t chunk) override;
  void drop(ArenaNumber arena, std::uint32_t chunk) override;

  // --- fork; in this order. The locks are held from the first function to the last, which the
  // analysis cannot follow. ---
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void lock_notices_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { notices_lock_.lock(); }
  void unlock_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// The child uses the socket, unless that is empty, with its own incarnation.
  void unlock_in_child(Fd socket, std::uint32_t incarnation) noexcept NO_THREAD_SAFETY_ANALYSIS;

 private:
  /// A message to the manager that has no answer.
  struct Notice {
    MessageKind kind = MessageKind::drain;
    WatchedQueue block;

    bool operator==(const Notice&) const = default;
  };

  [[nodiscard]] const SessionId& id() const noexcept { return memory_.id(); }
  Reply ask(const Message& message, int descriptor = -1);
  void reconnect() REQUIRES(mutex_);
  void register_again(const Arena& arena) REQUIRES(mutex_);
  /// Sends the notice, or leaves it to the thread that uses the connection. Never waits.
  void leave(const Notice& notice) noexcept;
  void send_notices() noexcept;
  [[nodiscard]] bool has_notices() noexcept;
  void send_notices_locked() noexcept REQUIRES(mutex_);

  RecursiveMutex mutex_;  // one request at a time; a fork sends requests while it holds the lock
  Connection connection_ GUARDED_BY(mutex_);
  const SessionMemory& memory_;
  const Member& member_;
  std::uint32_t incarnation_;
  MappedArenas& arenas_;
  const std::string program_;

  SpinLock notices_lock_;
  std::vector<Notice> notices_ GUARDED_BY(notices_lock_);  // its memory is reserved
};

}  // namespace shmtensor
