// The membership of this process in one session: its slot, its arenas, its connection to the
// manager.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arena/arena.hpp"
#include "arena/budget.hpp"
#include "arena/session_memory.hpp"
#include "cuda/device_data_segment.hpp"
#include "manager/connection.hpp"
#include "os/mutex.hpp"
#include "os/process.hpp"
#include "os/ready_pipe.hpp"
#include "os/spin_lock.hpp"
#include "session/handle.hpp"
#include "session/pinned_arena.hpp"

namespace shmtensor {

/// A block of an arena: the unit of memory for the layers above.
struct Block {
  Arena* arena = nullptr;
  BlockNumber number = 0;
};

/// Where a new block is allocated.
struct Placement {
  // NOLINTNEXTLINE(google-explicit-constructor): a strategy is a placement on the host
  Placement(Strategy how) noexcept : strategy(how) {}
  static Placement on_device(int number) noexcept {
    Placement placement(Strategy::device);
    placement.device = number;
    return placement;
  }

  Strategy strategy;
  int device = 0;  ///< for Strategy::device: its number in this process
};

/// Threads: all members except those for forks may be called simultaneously.
class Session : private cuda::ChunkKeeper, private DrainRequests {
 public:
  /// `program` is the path of the manager; `parent` is the pid of a process that may still read
  /// this one's messages after it has ended, or 0.
  struct Settings {
    std::string program;
    std::int32_t parent = 0;
    /// A PID namespace whose /proc shows this process; see `Segment::create`. A forked child keeps
    /// it, since it may be in a new namespace without a /proc of its own.
    std::uint64_t visible_in = pid_namespace();
  };

  /// Whether a session that has no manager gets one.
  enum class Start : std::uint8_t {
    never,
    if_it_lives,  ///< if a process has the session's memory, since the manager was killed then
    always,       ///< and starts a session that does not exist
  };

  /// Connects to the session. Returns null if the session does not exist, or has no manager, and
  /// `start` does not permit starting it. Throws SessionError, OsError.
  static std::unique_ptr<Session> connect(const SessionId& id, Start start,
                                          const Settings& settings, Budget& budget);

  [[nodiscard]] const SessionId& id() const noexcept { return memory_->id(); }
  [[nodiscard]] SlotNumber slot() const noexcept { return member_.slot(); }
  [[nodiscard]] Incarnation incarnation() const noexcept { return {slot(), incarnation_}; }
  /// Throws SessionError if this process has no slot.
  void require_slot() const { member_.require_slot(); }
  [[nodiscard]] SipKey key() const noexcept { return memory_->header().key; }
  [[nodiscard]] const SessionMemory& memory() const noexcept { return *memory_; }

  /// Allocates a block with one reference, without a system call. Nothing if that is not possible.
  [[nodiscard]] std::optional<Block> allocate_warm(std::uint64_t size, Placement placement);
  /// The same, but grows an arena or creates one as needed. Throws OutOfMemory, SessionError.
  [[nodiscard]] Block allocate(std::uint64_t size, Placement placement);

  /// The arena if this process has it mapped, else empty.
  [[nodiscard]] PinnedArena find(ArenaNumber number) noexcept;
  /// The arena, fetched from the manager and mapped if need be. Throws StaleHandle if there is
  /// none.
  [[nodiscard]] PinnedArena attach(ArenaNumber number, Strategy strategy);
  /// Cancels the ticket of a message of this session, if it is live. Throws SessionError, OsError.
  void cancel(const NamedTicket& named, Strategy strategy);

  /// Returns the manager as the keeper of descriptors of device memory.
  [[nodiscard]] cuda::ChunkKeeper& chunk_keeper() noexcept { return *this; }

  /// If the manager was killed, starts another one and sends it the state of this process. Called
  /// after a send, after an arena is attached, before an arena is closed and before the process
  /// ends, so that messages outlive their sender.
  void ensure_manager() noexcept;

  /// A pipe or socket into which this process sends, see WatchedPipes.
  struct Watched {
    std::uint32_t number = 0;  ///< for tickets of messages in it; 0 if it cannot be watched
    bool settled = false;      ///< false if the manager could not be told now: try again
  };
  /// Lets the manager watch a pipe. Never waits for the manager.
  [[nodiscard]] Watched watch_pipe(int descriptor) noexcept;

  /// Returns the ready pipe of an event of a queue, which the manager keeps as long as this
  /// process, or another one that watches the queue, has its socket open. Throws SessionError,
  /// OsError.
  [[nodiscard]] ReadyPipe watch_queue(const WatchedQueue& queue, const Fd& socket);
  /// Returns the ready pipe for a process that does not watch; empty if no process watches. Throws
  /// SessionError, OsError.
  [[nodiscard]] ReadyPipe ready_pipe(const WatchedQueue& queue);
  /// Lets the manager raise the ready pipe. Never waits for it.
  void wake_watchers(const WatchedQueue& queue) noexcept;

  [[nodiscard]] Statistics statistics();
  /// Reclaims free memory, releases idle pages to the system, and cancels tickets of the whole
  /// session of at least the given age. Returns the number of tickets.
  std::uint64_t collect(std::uint64_t older_than_milliseconds);

  /// Unmaps orphan arenas in which this process holds nothing, unless they are open in no other
  /// process. Idle mappings of device memory would keep it allocated.
  void drop_unused_orphans() { unmap_peers(true); }

  /// For a process that is short of address space: unmaps all arenas in which it holds nothing.
  /// Those of living processes can be attached again.
  void unmap_unused();

  /// Return true if this process holds a block of the session or owns an arena in it.
  [[nodiscard]] bool in_use() noexcept;

  struct Usage {
    std::uint64_t arenas = 0;    ///< mapped by this process
    std::uint64_t reserved = 0;  ///< bytes of pages in arenas that this process owns
    int descriptors = 0;         ///< open in this process for the session
    int mappings = 0;
  };
  [[nodiscard]] Usage usage() noexcept;

  // --- fork; in this order, with LocalTable::stop_locking after the first. The locks are held from
  // the first function to the last, which the analysis cannot follow. ---
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Gives the child a slot and makes it a holder, or reports why not.
  void prepare_child() noexcept;
  void lock_registry_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS {
    registry_lock_.lock();
    notices_lock_.lock();
  }
  void unlock_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Returns false if the child inherited nothing and may forget the session.
  bool unlock_in_child() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Forgets a session of the parent, which a thread that does not exist in the child may have been
  /// using.
  static void never_destroy(std::shared_ptr<Session> session) noexcept {
    Session& kept = *session;
    kept.itself_ = std::move(session);
  }

 private:
  Session(std::unique_ptr<SessionMemory> memory, Connection connection, SlotNumber slot,
          std::uint32_t incarnation, const Settings& settings, Budget& budget);

  /// Has the connection locked. A thread that finds it locked leaves its notices to the one that
  /// has it, which sends them afterwards.
  class SCOPED_CAPABILITY ConnectionGuard {
   public:
    explicit ConnectionGuard(Session& session) ACQUIRE(session.connection_mutex_)
        : session_(session) {
      session_.connection_mutex_.lock();
    }
    ~ConnectionGuard() RELEASE() {
      session_.connection_mutex_.unlock();
      session_.send_notices();
    }
    ConnectionGuard(const ConnectionGuard&) = delete;
    ConnectionGuard& operator=(const ConnectionGuard&) = delete;

   private:
    Session& session_;
  };

  void reserve_child_slot();
  bool enter_as_child() noexcept;
  void unlock_forked() noexcept NO_THREAD_SAFETY_ANALYSIS;
  std::uint64_t cancel_tickets(std::uint64_t older_than_milliseconds);
  Reply ask(const Message& message, int descriptor = -1);
  void drain(ArenaNumber arena, BlockNumber block) noexcept override;
  /// A message to the manager that has no answer.
  struct Notice {
    MessageKind kind = MessageKind::drain;
    WatchedQueue block;

    bool operator==(const Notice&) const = default;
  };
  /// Sends the notice, or leaves it to the thread that uses the connection. Never waits. Returns
  /// false if it can only be sent with a later one.
  bool leave(const Notice& notice);
  bool send_notices() noexcept;
  [[nodiscard]] bool has_notices() noexcept;
  /// Returns false if the manager could not be told now.
  [[nodiscard]] bool send_notices_locked() noexcept REQUIRES(connection_mutex_);
  void reconnect() REQUIRES(connection_mutex_);
  void send_registration(const Arena& arena) REQUIRES(connection_mutex_);
  // A manager that took over learns what a process in another PID namespace has when that process
  // next uses the session. A request for it is repeated so often.
  static constexpr int kSearches = 40;
  static constexpr std::chrono::milliseconds kSearchPause{50};
  [[nodiscard]] Fd find_memfd(ArenaNumber number);
  [[nodiscard]] std::unique_ptr<Segment> open_memfd(ArenaNumber number);
  [[nodiscard]] std::unique_ptr<Segment> open_named(ArenaNumber number);
  PinnedArena add(std::unique_ptr<Segment> segment, bool owned);
  [[nodiscard]] std::unique_ptr<Arena> make(std::unique_ptr<Segment> segment, bool owned);
  [[nodiscard]] Block allocate_on_host(std::uint64_t size, Placement placement);
  [[nodiscard]] Block allocate_on_device(std::uint64_t size, Placement placement);
  [[nodiscard]] std::optional<Block> allocate_in_own(std::uint64_t size, Placement placement);
  void make_arena(std::uint64_t size, Placement placement) REQUIRES(creation_mutex_);
  [[nodiscard]] std::vector<PinnedArena> own_arenas(Placement placement);
  [[nodiscard]] std::vector<PinnedArena> own_arenas();
  void retire_empty() REQUIRES(creation_mutex_);
  void unmap_peers(bool orphans_only);
  [[nodiscard]] ArenaNumber newest_arena(Placement placement);
  void set_current(Placement placement, Arena* arena) noexcept;

  // The requests of arenas of device memory to the manager.
  void keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
            const Fd& descriptor) override;
  [[nodiscard]] Fd fetch(ArenaNumber arena, std::uint32_t chunk) override;
  void drop(ArenaNumber arena, std::uint32_t chunk) override;
  [[nodiscard]] std::vector<PinnedArena> pin_all();

  Mutex creation_mutex_;  // one thread makes or retires arenas of its own; locked before the
                          // connection

  // The connection is closed last. When it breaks, the manager checks the lock of this process's
  // slot, which is released with the session's memory.
  RecursiveMutex connection_mutex_;  // one request at a time; a fork sends requests while it
                                     // holds the lock
  Connection connection_ GUARDED_BY(connection_mutex_);

  std::unique_ptr<SessionMemory> memory_;
  Member member_;
  std::uint32_t incarnation_;
  const Settings settings_;
  Budget& budget_;

  SpinLock notices_lock_;
  std::vector<Notice> notices_ GUARDED_BY(notices_lock_);

  SpinLock registry_lock_;
  std::unordered_map<ArenaNumber, std::unique_ptr<Arena>> arenas_ GUARDED_BY(registry_lock_);
  static constexpr std::size_t kPlacements = 20;
  Arena* current_[kPlacements] GUARDED_BY(registry_lock_){};  // the first arena to try

  // During a fork:
  Arena* forked_ = nullptr;  // the first of the arenas that were there when it began
  Fd child_socket_;
  SlotNumber child_slot_ = kNoSlot;
  std::uint32_t child_incarnation_ = 0;
  std::string no_child_slot_;        // why the child has none
  std::shared_ptr<Session> itself_;  // in a child that has forgotten it
};

}  // namespace shmtensor
