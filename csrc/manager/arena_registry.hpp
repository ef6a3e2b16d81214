// The arenas of a session that the manager has open.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arena/reclaim.hpp"
#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"
#include "manager/orphan_reclaim.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

/// Keeps every arena open while it has a live block, so that messages outlive their senders.
/// Threads: one.
class ArenaRegistry {
 public:
  /// Adds an arena that a member created, or that this manager finds or is notified of after it
  /// took over. In the second case, members that an earlier manager knew may have died, so the bits
  /// of unused slots are cleared.
  void add(std::unique_ptr<Segment> segment, bool owner_lives, const SessionMemory& memory,
           const SlotSet& unused);
  struct Found {
    std::unique_ptr<Segment> segment;
    bool owner_lives = false;
  };
  /// The same for several arenas. All are known before the first is repaired: a queue in one may
  /// have its messages in another.
  void add(std::vector<Found> found, const SessionMemory& memory, const SlotSet& unused);
  /// The arena becomes an orphan arena while its owner lives. Does nothing if there is none.
  void retire(ArenaNumber number);
  [[nodiscard]] const Segment* find(ArenaNumber number) const;
  [[nodiscard]] std::size_t owned_by(SlotNumber slot) const;

  /// Keeps the descriptor of a chunk of device memory while the chunk has a block. Returns false if
  /// there is no such arena.
  bool keep_chunk(ArenaNumber number, std::uint32_t chunk, Fd descriptor);
  /// Returns null if no descriptor of the chunk is known.
  [[nodiscard]] const Fd* find_chunk(ArenaNumber number, std::uint32_t chunk);
  void drop_chunk(ArenaNumber number, std::uint32_t chunk);

  /// Wakes owners that wait for blocks to be freed, because a dead process may have used such a
  /// block.
  void notify_owners() const noexcept;

  /// Called with an event of a repaired queue that has happened, or may have.
  using Happened = std::function<void(const WatchedQueue&)>;
  /// Cancels the tickets of dead slots that end with them, clears their bits in all arenas, and
  /// repairs the queues that they held. The arenas that they own become orphan arenas.
  void sweep(const SessionMemory& memory, const SlotSet& dead, const Happened& happened = {});

  /// Returns the header of a queue; null if the block has none. It stays valid as long as a process
  /// holds the queue.
  [[nodiscard]] QueueHeader* queue(ArenaNumber number, BlockNumber block) const;

  /// Cancels the tickets that a draining block contains, and frees it.
  void drain(const SessionMemory& memory, ArenaNumber number, BlockNumber block);
  /// Frees the block if it is unused. A block that contains tickets is to be drained by the caller.
  FreeResult try_free_block(const SessionMemory& memory, ArenaNumber number, BlockNumber block);
  /// Lets the owner of an arena know that a block is free.
  void note_free(ArenaNumber number, BlockNumber block);

  /// Notes that an end of a pipe ended, which wrote or read this queue.
  void note_hung_up(ArenaNumber number, BlockNumber block) { hung_up_.emplace_back(number, block); }
  /// The queues that were noted since the last call.
  [[nodiscard]] std::vector<std::pair<ArenaNumber, BlockNumber>> take_hung_up() noexcept {
    return std::exchange(hung_up_, {});
  }

  /// Cancels tickets of at least the given age. Returns their number.
  std::uint64_t collect(const SessionMemory& memory, std::uint64_t older_than_milliseconds);

  /// For a session without a process: cancels the tickets of all messages, and of all objects under
  /// names but those whose mark (`NameTable::mark_of`, from `kFirstKept` on) is listed.
  void cancel_all_but(const SessionMemory& memory, const std::vector<bool>& marks);

  /// Releases the unused memory of orphan arenas, within one allowance per call, and closes orphan
  /// arenas without blocks.
  void reclaim_orphans();
  [[nodiscard]] bool has_orphans() const;
  /// Return true if more memory can be released immediately.
  [[nodiscard]] bool unfinished() const;

  /// Releases the memory of a file that no process can reach, within the same allowance.
  void empty(Fd file) { pending_.push_back({std::move(file), 0}); }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Returns the arena with the next higher number; null after the last.
  [[nodiscard]] const Segment* after(ArenaNumber number) const;

 private:
  struct Entry {
    std::unique_ptr<Segment> segment;
    bool orphan = false;
    OrphanReclaim reclaim;
    OrphanReclaim::Chunks chunks;
  };
  struct PendingReclaim {
    Fd file;
    std::uint64_t reclaimed = 0;
  };

  /// Returns null if there is none.
  [[nodiscard]] Entry* entry_of(ArenaNumber number);
  static void make_orphan(Entry& entry);
  void clear_dead(Entry& entry, const SessionMemory& memory, const SlotSet& dead,
                  const Happened& happened);
  /// Cancels the tickets of the groups that `chosen(sent)` selects. Returns their number.
  template <typename Chosen>
  std::uint64_t cancel_tickets(const SessionMemory& memory, Chosen&& chosen);
  void free_marked(Entry& entry, BlockNumber block);

  std::map<ArenaNumber, Entry> entries_;
  std::vector<PendingReclaim> pending_;
  std::vector<std::pair<ArenaNumber, BlockNumber>> hung_up_;
};

}  // namespace shmtensor
