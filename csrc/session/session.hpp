// The membership of this process in one session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arena/arena.hpp"
#include "arena/budget.hpp"
#include "arena/member.hpp"
#include "arena/session_memory.hpp"
#include "manager/connection.hpp"
#include "os/mutex.hpp"
#include "os/process.hpp"
#include "session/handle.hpp"
#include "session/manager_client.hpp"
#include "session/mapped_arenas.hpp"
#include "session/pinned_arena.hpp"
#include "session/placement.hpp"

namespace shmtensor {

/// A slot in the session's memory, the arenas that this process has mapped, and the manager.
/// Threads: all members except those for forks may be called simultaneously.
class Session {
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
  [[nodiscard]] Incarnation incarnation() const noexcept {
    return {slot(), manager_.incarnation()};
  }
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

  [[nodiscard]] ManagerClient& manager() noexcept { return manager_; }

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
  [[nodiscard]] bool in_use() noexcept { return arenas_.in_use(); }
  /// Descriptors and mappings of the session's own memory and of the connection are included.
  [[nodiscard]] MappedArenas::Usage usage() noexcept;

  // --- fork; in this order, with LocalTable::stop_locking after the first. The locks are held from
  // the first function to the last, which the analysis cannot follow. ---
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Gives the child a slot and makes it a holder, or reports why not.
  void prepare_child() noexcept;
  void lock_lists_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS {
    arenas_.lock_list_for_fork();
    manager_.lock_notices_for_fork();
  }
  void unlock_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Returns false if the child inherited nothing and may forget the session.
  bool unlock_in_child() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Forgets a session of the parent, which a thread that does not exist in the child may have been
  /// using.
  static void never_destroy(std::shared_ptr<Session> session) noexcept {
    Session& kept = *session;
    kept.leaked_ = std::move(session);
  }

 private:
  Session(std::unique_ptr<SessionMemory> memory, Connection connection, SlotNumber slot,
          std::uint32_t incarnation, const Settings& settings, Budget& budget);

  void reserve_child_slot();
  bool enter_as_child() noexcept;
  [[nodiscard]] std::unique_ptr<Segment> open_memfd(ArenaNumber number);
  [[nodiscard]] std::unique_ptr<Segment> open_named(ArenaNumber number);
  PinnedArena add(std::unique_ptr<Segment> segment, bool owned);
  [[nodiscard]] Block allocate_on_host(std::uint64_t size, Placement placement);
  [[nodiscard]] Block allocate_on_device(std::uint64_t size, Placement placement);
  [[nodiscard]] std::optional<Block> allocate_in_own(std::uint64_t size, Placement placement);
  void make_arena(std::uint64_t size, Placement placement) REQUIRES(creation_mutex_);
  void retire_empty() REQUIRES(creation_mutex_);
  void unmap_peers(bool orphans_only);

  Mutex creation_mutex_;  // one thread makes or retires arenas of its own; locked before the
                          // connection

  // The connection is closed last. When it breaks, the manager checks the lock of this process's
  // slot, which is released with the session's memory.
  ManagerClient manager_;
  std::unique_ptr<SessionMemory> memory_;
  Member member_;
  MappedArenas arenas_;
  const Settings settings_;
  Budget& budget_;

  // During a fork:
  Fd child_socket_;
  Incarnation child_;
  std::string no_child_slot_;        // why the child has none
  std::shared_ptr<Session> leaked_;  // itself, so that it is never destroyed in this child
};

}  // namespace shmtensor
