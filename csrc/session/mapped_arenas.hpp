// The arenas of a session that this process has mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "arena/arena.hpp"
#include "os/mutex.hpp"
#include "os/spin_lock.hpp"
#include "session/pinned_arena.hpp"
#include "session/placement.hpp"

namespace shmtensor {

/// Threads: all members except those for forks may be called simultaneously. Each thread that uses
/// an arena has pinned it, and pins it with the list locked, so that an unpinned one may be taken.
class MappedArenas {
 public:
  /// Adds an arena. If another thread has added one of the same number, returns that one.
  PinnedArena add(std::unique_ptr<Arena> arena);
  /// Empty if there is none.
  [[nodiscard]] PinnedArena find(ArenaNumber number) noexcept;
  [[nodiscard]] std::vector<PinnedArena> all();
  /// Those in which this process allocates.
  [[nodiscard]] std::vector<PinnedArena> owned();
  [[nodiscard]] std::vector<PinnedArena> owned(Placement placement);
  /// The highest number of an owned arena; 0 if there is none.
  [[nodiscard]] ArenaNumber newest(Placement placement);

  /// The owned arena that is tried first; empty if there is none.
  [[nodiscard]] PinnedArena current(Placement placement);
  /// Null: none. The last current arena may then be taken.
  void set_current(Placement placement, Arena* arena) noexcept;

  /// Takes the owned arenas on the host in which nothing is allocated, except current ones.
  [[nodiscard]] std::vector<std::unique_ptr<Arena>> take_empty();
  /// Takes arenas of other processes in which this one holds nothing.
  [[nodiscard]] std::vector<std::unique_ptr<Arena>> take_unused(bool orphans_only);

  /// Return true if this process holds a block or owns an arena.
  [[nodiscard]] bool in_use() noexcept;
  struct Usage {
    std::uint64_t arenas = 0;    ///< mapped by this process
    std::uint64_t reserved = 0;  ///< bytes of pages in arenas that this process owns
    int descriptors = 0;         ///< open in this process
    int mappings = 0;
  };
  [[nodiscard]] Usage usage() noexcept;

  // --- fork; in this order. The locks are held from the first function to the last, which the
  // analysis cannot follow. ---
  /// Pins and locks the arenas that are there now.
  void lock_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS;
  void lock_list_for_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  /// Calls the function with each arena that is locked for the fork.
  template <typename Function>
  void for_each_in_fork(Function&& function) {
    for (Arena* arena = forked_; arena != nullptr; arena = arena->next_in_fork()) function(*arena);
  }
  void unlock_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
  /// Forgets arenas that the child, with this slot, cannot use, and disowns the others. Returns
  /// true if it holds blocks.
  bool unlock_in_child(SlotNumber slot) noexcept NO_THREAD_SAFETY_ANALYSIS;

 private:
  template <typename Choose>
  [[nodiscard]] std::vector<PinnedArena> pin(Choose&& choose);
  template <typename Choose>
  [[nodiscard]] std::vector<std::unique_ptr<Arena>> take(Choose&& choose);
  void unlock_forked() noexcept NO_THREAD_SAFETY_ANALYSIS;

  SpinLock lock_;
  std::unordered_map<ArenaNumber, std::unique_ptr<Arena>> arenas_ GUARDED_BY(lock_);
  static constexpr std::size_t kPlacements = 20;
  Arena* current_[kPlacements] GUARDED_BY(lock_){};
  Arena* forked_ = nullptr;  // during a fork: the first of the arenas that were there when it began
};

}  // namespace shmtensor
