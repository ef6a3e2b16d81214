// The session that a manager serves: its memory, slots and arenas.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "manager/arena_registry.hpp"
#include "manager/protocol.hpp"
#include "manager/slot_table.hpp"
#include "os/fd.hpp"

namespace shmtensor {

/// Threads: one.
class ServedSession {
 public:
  explicit ServedSession(const SessionId& id) : id_(id) {}

  [[nodiscard]] const SessionId& id() const noexcept { return id_; }
  /// Return false before the first process has joined. There is neither memory nor a slot then.
  [[nodiscard]] bool exists() const noexcept { return memory_ != nullptr; }
  [[nodiscard]] const SessionMemory& memory() const noexcept { return *memory_; }
  [[nodiscard]] SlotTable& slots() const noexcept { return *slots_; }
  [[nodiscard]] ArenaRegistry& arenas() noexcept { return arenas_; }

  /// Adopts the given memory, or that of a session whose manager was killed, or creates it, if
  /// `join` permits that. The processes in adopted slots are to be watched by the caller. Throws
  /// SessionError if another manager may serve the session.
  void find_or_start(Join join, Fd memory);
  /// Another manager may adopt the memory after this.
  void release_memory() noexcept;
  /// Removes the names of the arenas, and those whose creator was killed before it registered them.
  void remove_names() const;

  void add_arena(std::unique_ptr<Segment> segment);
  /// Finds the arenas that were made while an earlier manager served the session.
  void find_arenas();
  /// Return false if some arenas could not be opened when this manager took over.
  [[nodiscard]] bool knows_all_arenas() const noexcept { return knows_all_arenas_; }
  /// Returns null if the owner is dead.
  [[nodiscard]] const SlotTable::Occupant* owner_of(const Segment& segment) const;

  /// Tries to free all blocks if a member could not check one, or notify the manager. Returns true
  /// if so: those that watch queues are to be woken.
  [[nodiscard]] bool try_postponed_frees();

  /// For a session without a process whose end can be detected: return true if no message is
  /// unread, or neither another process nor a living parent of a former one could receive it.
  [[nodiscard]] bool may_end() const;
  /// Records since when the session has no process; 0: it has one. For observers.
  void note_empty(std::uint64_t since) const noexcept;
  /// For a session that may end after `idle` milliseconds without a process: returns for how long
  /// it stays because of its kept names, of which nothing else stays. Nothing if none is kept.
  [[nodiscard]] std::optional<std::uint64_t> keep_names(std::uint64_t idle);

 private:
  void assume(std::unique_ptr<SessionMemory> memory);
  void adopt(std::unique_ptr<SessionMemory> memory);

  SessionId id_;
  std::unique_ptr<SessionMemory> memory_;
  std::uint32_t claimed_ = 0;  ///< identifies this manager in the session's memory
  std::unique_ptr<SlotTable> slots_;
  ArenaRegistry arenas_;
  bool knows_all_arenas_ = true;
};

}  // namespace shmtensor
