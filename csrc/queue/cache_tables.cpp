#include "queue/cache_tables.hpp"

#include "base/error.hpp"

namespace shmtensor {

std::optional<CacheSpot> CacheTable::find(const CacheKey& key) const noexcept {
  const std::uint64_t first = begin(key);
  for (std::uint64_t i = first; i < first + CacheBucket::kPlaces; ++i) {
    CacheSpot found = spot(i);
    if (found.first->load() != key.first) continue;
    found.version = found.place->version.load();
    if (CachePlace::has_item(found.version) && found.place->second.load() == key.second) {
      return found;
    }
  }
  return std::nullopt;
}

std::optional<CacheSpot> CacheTable::find_free(const CacheKey& key) const noexcept {
  const std::uint64_t first = begin(key);
  for (std::uint64_t i = first; i < first + CacheBucket::kPlaces; ++i) {
    if (spot(i).first->load() == 0) return spot(i);
  }
  return std::nullopt;
}

CacheHeader* cache_in(std::span<std::byte> bytes) noexcept {
  if (bytes.size() < sizeof(CacheHeader) || !is_aligned(bytes)) return nullptr;
  auto* const header = reinterpret_cast<CacheHeader*>(bytes.data());
  return header->magic.load() == kCacheMagic ? header : nullptr;
}

CacheTable cache_table(CacheHeader& cache, std::uint32_t number, RingMapper& mapper) {
  if (number == 0) return {cache.first_places.data(), cache.first_buckets.data(), 0};
  const MessageEntry& record = cache.records[number].item;
  const std::optional<NamedTicket> named = record.ticket.read();
  if (!named) throw SessionError("a cache is damaged: one of its tables has no block");
  const std::span<std::byte> bytes =
      mapper.map_ring(*named, static_cast<Strategy>(record.strategy.load()));
  if (bytes.data() == nullptr) return {};
  if (bytes.size() < cache_table_bytes(number) || !is_aligned(bytes)) {
    throw SessionError("a cache is damaged: the block of a table has " +
                       std::to_string(bytes.size()) + " bytes");
  }
  auto* const places = reinterpret_cast<CachePlace*>(bytes.data());
  return {places, reinterpret_cast<CacheBucket*>(places + cache_places(number)), number};
}

}  // namespace shmtensor
