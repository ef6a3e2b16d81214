// What is left in a cache after a run.
#pragma once

#include <cstdint>
#include <vector>

#include "manager/drain.hpp"
#include "queue/cache_tables.hpp"
#include "simulation/manager.hpp"
#include "simulation/run.hpp"

namespace shmtensor::simulation {

/// The run fails if a process has left something half done.
class CacheLeft {
 public:
  CacheLeft(Run& run, CacheHeader& cache, Manager& manager, std::size_t most_keys)
      : keys(most_keys), run_(run), tickets_(manager.arenas(), manager.memory()) {
    if (cache.changes.lock.load() != 0) run.fail("the lock is left");
    if (cache.change.load() != 0) run.fail("a change is left");
    for (const CacheBuild& build : cache.builds) {
      if (build.owner.load() != 0) run.fail("a build is left");
    }
    for (std::uint32_t number = 0; number < cache.tables.load(); ++number) {
      const CacheTable table = cache_table(cache, number, tickets_);
      const std::uint64_t begin = cache_places(number) - CacheSizes::kFirstPlaces;
      for (std::uint64_t i = 0; i < cache_places(number); ++i) count(table.at(begin + i));
      blocks += number != 0 ? 1 : 0;
    }
  }

  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 1;  ///< the cache's, those of tables and of items
  std::vector<bool> keys;    ///< that have an item

 private:
  void count(const CacheSpot& spot) {
    const std::uint64_t first = spot.first->load();
    const bool has_item = CachePlace::has_item(spot.place->version.load());
    if ((first != 0) != has_item) return run_.fail("a place is neither free nor taken");
    if (!has_item) return;
    const std::uint64_t key = first - 1;
    if (key >= keys.size() || keys[key]) return run_.fail("a key has two items");
    keys[key] = true;
    ++items;
    bytes += spot.place->item.bytes.load();
    if (spot.place->item.kind.load() == 0) return;
    const auto named = spot.place->item.ticket.read();
    if (!named || !tickets_.is_live(*named)) return run_.fail("an item has no ticket");
    ++blocks;
  }

  Run& run_;
  Drain tickets_;
};

}  // namespace shmtensor::simulation
