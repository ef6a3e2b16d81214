// The tables of a cache, in any process that has them mapped.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "queue/cache_layout.hpp"
#include "queue/rings.hpp"

namespace shmtensor {

/// A place, with its word in the bucket.
struct CacheSpot {
  CachePlace* place = nullptr;
  Atomic<std::uint64_t>* first = nullptr;
  std::uint64_t number = 0;   ///< of the place, among those of all tables
  std::uint64_t version = 0;  ///< of the item that was found
};

/// Any process of the session can write to the memory, so all that is read there may be wrong.
class CacheTable {
 public:
  CacheTable() noexcept = default;
  CacheTable(CachePlace* places, CacheBucket* buckets, std::uint32_t number) noexcept
      : places_(places), buckets_(buckets), number_(number) {}

  explicit operator bool() const noexcept { return places_ != nullptr; }
  /// The item of a key. Nothing if it is not here, or is being added or removed.
  [[nodiscard]] std::optional<CacheSpot> find(const CacheKey& key) const noexcept;
  /// A free place for a key. To be called with the lock.
  [[nodiscard]] std::optional<CacheSpot> find_free(const CacheKey& key) const noexcept;
  /// The place with this number, which is in this table.
  [[nodiscard]] CacheSpot at(std::uint64_t number) const noexcept {
    return spot(number - first_number());
  }

 private:
  [[nodiscard]] std::uint64_t first_number() const noexcept {
    return cache_places(number_) - CacheSizes::kFirstPlaces;
  }
  [[nodiscard]] CacheSpot spot(std::uint64_t index) const noexcept {
    return {.place = &places_[index],
            .first = &buckets_[index / CacheBucket::kPlaces].firsts[index % CacheBucket::kPlaces],
            .number = first_number() + index};
  }
  /// The index of the first place of the key's bucket.
  [[nodiscard]] std::uint64_t begin(const CacheKey& key) const noexcept {
    return key.second % (cache_places(number_) / CacheBucket::kPlaces) * CacheBucket::kPlaces;
  }

  CachePlace* places_ = nullptr;
  CacheBucket* buckets_ = nullptr;
  std::uint32_t number_ = 0;
};

/// The number of the table of a place.
[[nodiscard]] constexpr std::uint32_t cache_table_of(std::uint64_t place) noexcept {
  return static_cast<std::uint32_t>(std::bit_width(place / CacheSizes::kFirstPlaces + 1)) - 1;
}

/// The cache in these bytes; null if there can be none.
[[nodiscard]] CacheHeader* cache_in(std::span<std::byte> bytes) noexcept;

/// Empty if this process has not mapped the arena. Throws SessionError if the block is damaged.
[[nodiscard]] CacheTable cache_table(CacheHeader& cache, std::uint32_t number, RingMapper& mapper);

}  // namespace shmtensor
