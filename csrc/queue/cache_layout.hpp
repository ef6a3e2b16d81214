// The layout of a cache's shared memory. docs/design/caches.md proves its protocol.
//
// The first block has the lock of the writers, what is being built, and a table of items. Each
// further table is a block of its own, twice as large as the one before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "queue/cache_sizes.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kCacheMagic = 0x3165'6863'6163'7473;  // "stcache1"

/// Two hashes of a key, which a process of another session cannot predict. They stand for the key:
/// that two keys have the same is as unlikely as a wrong bit in memory.
struct CacheKey {
  std::uint64_t first = 0;  ///< not 0
  std::uint64_t second = 0;

  bool operator==(const CacheKey&) const = default;
};

/// Where an item may be.
struct CachePlace {
  MessageEntry item;
  /// Odd while an item is here. Stored after the item was written, and before it is destroyed: a
  /// reader that finds the same odd number before and after has copied one item.
  Atomic<std::uint64_t> version;
  Atomic<std::uint64_t> second;  ///< of the key
  Atomic<std::uint64_t> used;    ///< the time of the last use, in nanoseconds since boot
  std::array<std::byte, 40> padding;

  [[nodiscard]] static constexpr bool has_item(std::uint64_t version) noexcept {
    return version % 2 != 0;
  }
};
static_assert(sizeof(CachePlace) == 320);

/// The places of the keys with the same lower bits in `second`: `first` of each key, or 0.
struct alignas(64) CacheBucket {
  static constexpr std::uint32_t kPlaces = 8;

  std::array<Atomic<std::uint64_t>, kPlaces> firsts;
};

/// An item that a process is building. Written with the lock of the cache; but the builder alone,
/// or the manager after its death, ends it.
struct alignas(64) CacheBuild {
  Atomic<std::uint32_t> owner;   ///< slot of the process + 1; 0: unused
  Atomic<std::uint32_t> thread;  ///< `thread_number` in that process
  Atomic<std::uint64_t> first;   ///< of the key
  Atomic<std::uint64_t> second;
  Atomic<std::uint64_t> serial;  ///< changes with each use of this record

  [[nodiscard]] bool is_of(const CacheKey& key) const noexcept {
    return owner.load() != 0 && first.load() == key.first && second.load() == key.second;
  }
};

/// Counted apart by processes, so that they do not wait for one another's cache lines.
struct alignas(64) CacheCounts {
  Atomic<std::uint64_t> hits;
  Atomic<std::uint64_t> misses;
};

/// A change of one place that is not complete: place + 1:40 | removes:1 | lower bits of the count
/// of changes before:23.
class CacheChange {
 public:
  static constexpr std::uint64_t kCount = (1u << 23) - 1;

  constexpr explicit CacheChange(std::uint64_t bits) noexcept : bits_(bits) {}
  constexpr CacheChange(std::uint64_t place, bool removes, std::uint64_t count) noexcept
      : bits_((place + 1) << 24 | std::uint64_t{removes} << 23 | (count & kCount)) {}

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool is_none() const noexcept { return bits_ >> 24 == 0; }
  [[nodiscard]] constexpr std::uint64_t place() const noexcept { return (bits_ >> 24) - 1; }
  [[nodiscard]] constexpr bool removes() const noexcept { return (bits_ >> 23 & 1) != 0; }
  /// Return true if `count` is that of before this change.
  [[nodiscard]] constexpr bool is_before(std::uint64_t count) const noexcept {
    return (bits_ & kCount) == (count & kCount);
  }

 private:
  std::uint64_t bits_;
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one cache line for each writer
struct CacheHeader : CacheSizes {
  static constexpr std::uint32_t kStripes = 16;

  Atomic<std::uint64_t> magic;
  Atomic<std::uint64_t> max_bytes;  ///< 0: as many as memory permits
  Atomic<std::uint32_t> tables;     ///< in use
  /// Its lock is that of all changes. Its count is that of items that were added or removed; its
  /// bytes are those of the items that are there.
  QueueEnd changes;
  /// Items that are there, in word `count % 2`, as the bytes.
  std::array<Atomic<std::uint64_t>, 2> items;
  Atomic<std::uint64_t> change;                ///< CacheChange
  Atomic<std::uint64_t> hand;                  ///< the place at which the next sample begins
  Atomic<std::uint64_t> evictions;             ///< items that went because of a limit
  alignas(64) Atomic<std::uint32_t> builders;  ///< WaitFlag: until a build ends
  QueueLabel label;
  std::array<CacheCounts, kStripes> counts;
  std::array<CacheBuild, kBuilds> builds;
  /// By number of the table: its block, as the block of an item. The first one has none.
  std::array<CachePlace, kTables> records;
  std::array<CachePlace, kFirstPlaces> first_places;
  std::array<CacheBucket, kFirstPlaces / CacheBucket::kPlaces> first_buckets;

  /// The ticket records in the first block.
  [[nodiscard]] static TicketContents contents() noexcept {
    return {.kind = TicketContents::Kind::cache,
            .stride = sizeof(CachePlace),
            .first = offsetof(CacheHeader, records),
            .count = kTables + kFirstPlaces};
  }
};
static_assert(offsetof(CacheHeader, records) < 0x10000);  // TicketContents::first

/// A further table has so many places, then their buckets.
[[nodiscard]] constexpr std::uint64_t cache_places(std::uint32_t table) noexcept {
  return std::uint64_t{CacheSizes::kFirstPlaces} << table;
}
[[nodiscard]] constexpr std::uint64_t cache_table_bytes(std::uint32_t table) noexcept {
  return cache_places(table) * (sizeof(CachePlace) + sizeof(CacheBucket) / CacheBucket::kPlaces);
}
[[nodiscard]] constexpr TicketContents cache_table_contents(std::uint32_t table) noexcept {
  return {.kind = TicketContents::Kind::message,
          .stride = sizeof(CachePlace),
          .first = 0,
          .count = static_cast<std::uint32_t>(cache_places(table))};
}

}  // namespace shmtensor
