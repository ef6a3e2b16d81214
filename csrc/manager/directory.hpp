// The arenas of a session, as its manager knows them.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"
#include "manager/allowance.hpp"
#include "manager/protocol.hpp"

namespace shmtensor {

/// Keeps every arena open as long as a block of it lives, so that messages outlive their senders.
/// Threads: one.
class Directory {
 public:
  /// An arena that a member made, or that this manager finds or is told of when it has taken over.
  /// Then members may have died that another manager knew: what slots without a process hold there
  /// is cleared.
  void add(std::unique_ptr<Segment> segment, bool owner_lives, const SessionMemory& memory,
           const SlotSet& unused);
  [[nodiscard]] const Segment* find(ArenaNumber number) const;
  [[nodiscard]] std::size_t owned_by(SlotNumber slot) const;

  /// Keeps the descriptor of a piece of device memory as long as a block lies in it. False when
  /// there is no such arena.
  bool keep_chunk(ArenaNumber number, std::uint32_t chunk, Fd descriptor);
  /// Null when nobody has told it.
  [[nodiscard]] const Fd* find_chunk(ArenaNumber number, std::uint32_t chunk) const;
  void drop_chunk(ArenaNumber number, std::uint32_t chunk);

  /// Wakes owners that wait for blocks to be freed: one of their users may have died over it.
  void tell_owners() const noexcept;

  /// Clears what a dead slot held everywhere. Its own arenas become orphans.
  void sweep(const SessionMemory& memory, SlotNumber dead);

  /// Spends tickets that are at least so old; how many.
  std::uint64_t collect(const SessionMemory& memory, std::uint64_t older_than_milliseconds);

  /// Gives the memory of orphans back, as far as no block needs it, and drops those without blocks.
  /// An allowance of it in each call.
  void tend_orphans();
  [[nodiscard]] bool has_orphans() const;
  /// Is there more to give back at once?
  [[nodiscard]] bool unfinished() const;

  /// Gives the memory of a file that nobody can reach any more back in the same way.
  void empty(Fd file) { leftovers_.push_back({std::move(file), 0}); }

  void count(Statistics& statistics) const;
  /// Adds what one arena has.
  static void count(const Segment& segment, Statistics& statistics);
  /// The arena with the next higher number; null at the end.
  [[nodiscard]] const Segment* after(ArenaNumber number) const;

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  struct Entry {
    std::unique_ptr<Segment> segment;
    bool orphan = false;
    /// An orphan's data below has been given back. From 0 again when it is worth while.
    std::uint64_t given_back = 0;
    /// Blocks that lived at the last walk over all of them; blocks and bytes freed since.
    std::uint64_t live = 0;
    std::uint64_t freed = 0;
    std::uint64_t freed_bytes = 0;
    std::map<std::uint32_t, Fd> chunks;
  };
  struct Leftover {
    Fd file;
    std::uint64_t given_back = 0;
  };

  void put_right(Entry& entry, const SessionMemory& memory, const SlotSet& dead);
  void free_marked(Entry& entry, BlockNumber block);
  static void note_freed(Entry& entry);
  /// False when the orphan may be dropped.
  static bool tend(ArenaNumber number, Entry& entry, Allowance& allowance);
  static bool give_back_gaps(Entry& entry, Allowance& allowance);
  static bool give_back_chunks(Entry& entry);

  std::map<ArenaNumber, Entry> entries_;
  std::vector<Leftover> leftovers_;
};

/// Live tickets of all slots, without those that are kept for names.
[[nodiscard]] std::uint64_t count_in_flight(const SessionMemory& memory);

}  // namespace shmtensor
