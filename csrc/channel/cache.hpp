// A cache of items in shared memory: any process adds what is missing, all read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/atomic.hpp"
#include "channel/queue.hpp"
#include "channel/spin_window.hpp"
#include "queue/cache_tables.hpp"
#include "session/pinned_arena.hpp"

namespace shmtensor {

struct CacheOptions {
  std::uint64_t max_bytes = 0;  ///< of all items; 0: no limit but memory
  QueueLabel label{};
};

/// Which items may go.
enum class Evict : std::uint8_t {
  unheld,  ///< those whose block no process holds
  own,     ///< of these, those in an arena of this process
  any,
};

/// The cache in one block, as this process uses it. The caller keeps the block held, and its arena
/// mapped, as long as the object exists.
///
/// As with a queue, an attempt never sleeps, so it may be made with the GIL.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Cache {
 public:
  static constexpr std::size_t kBytes = sizeof(CacheHeader);
  /// Makes a cache in a new block of `kBytes`.
  static void create(const Block& block, const CacheOptions& options);

  /// Throws SessionError if the block has no cache.
  Cache(Session& session, const Block& block);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  [[nodiscard]] Session& session() const noexcept { return session_; }

  /// Copies the item and holds its block; `empty` if it is not there.
  [[nodiscard]] Attempt try_find(const CacheKey& key, Incoming& item, ChannelCall& call);
  /// Adds an item, unless there is one with that key, and makes room for it: `full` if that is not
  /// possible. Throws OutOfMemory.
  [[nodiscard]] Attempt try_add(const CacheKey& key, const Outgoing& item, ChannelCall& call);
  /// Removes an item; `empty` if it is not there.
  [[nodiscard]] Attempt try_remove(const CacheKey& key, ChannelCall& call);
  /// Removes the item that was not used for the longest time, of a sample; `full` if there is none
  /// that may go.
  [[nodiscard]] Attempt try_evict(Evict which, ChannelCall& call);
  /// As Queue::prepare, after one of these attempts.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);
  void pass_wakeup_on() noexcept {}

  void count(bool hit) noexcept;
  void set_max_bytes(std::uint64_t bytes) noexcept { header_.max_bytes.store(bytes); }

  struct Numbers {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;
    std::uint64_t evictions = 0;
    std::uint64_t max_bytes = 0;
  };
  /// While processes use the cache, of different instants.
  [[nodiscard]] Numbers numbers() const noexcept;

 private:
  friend class CacheTurn;

  struct OpenedTable {
    CacheTable table;
    std::uint32_t number = 0;
    PinnedArena arena;
    OpenedTable* before = nullptr;
  };

  /// Finds tables that were added. Returns false if one must be mapped first. Throws StaleHandle if
  /// one was lost together with its arena.
  [[nodiscard]] bool open_tables(ChannelCall& call);
  [[noreturn]] static void throw_lost(ArenaNumber arena);
  [[nodiscard]] std::optional<CacheSpot> find(const CacheKey& key) const noexcept;
  [[nodiscard]] CacheSpot spot(std::uint64_t place) const noexcept {
    const OpenedTable* opened = newest_.load();
    while (opened->number > cache_table_of(place)) opened = opened->before;
    return opened->table.at(place);
  }
  [[nodiscard]] std::uint64_t places() const noexcept {
    return cache_places(newest_.load()->number + 1) - CacheHeader::kFirstPlaces;
  }

  // With the lock:
  [[nodiscard]] Attempt add(const CacheKey& key, const Outgoing& item, ChannelCall& call);
  [[nodiscard]] Attempt add_table(ChannelCall& call);
  void write(const CacheSpot& to, const CacheKey& key, const Outgoing& item);
  [[nodiscard]] Attempt remove(const CacheSpot& spot, ChannelCall& call);
  /// `empty` if the item's memory is there.
  [[nodiscard]] Attempt remove_lost(const CacheSpot& spot, ChannelCall& call);
  [[nodiscard]] Attempt evict(Evict which, ChannelCall& call);
  /// The least recently used item of the next ones after `hand`, which moves on.
  [[nodiscard]] std::optional<CacheSpot> sample(Evict which, std::uint64_t& hand) const noexcept;
  [[nodiscard]] bool is_in_own_arena(const MessageEntry& entry) const noexcept;
  [[nodiscard]] static bool is_held(const MessageEntry& entry, ChannelCall& call) noexcept;
  /// Writes the numbers of items and bytes after the next change.
  void write_totals(std::int64_t items, std::int64_t bytes) noexcept;

  void make_table(ChannelCall& call);

  Session& session_;
  CacheHeader& header_;
  SpinWindow spin_;
  OpenedTable first_;
  Atomic<OpenedTable*> newest_{&first_};  ///< without a lock: no fork finds one held
};

}  // namespace shmtensor
