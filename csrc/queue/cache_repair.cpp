#include "queue/cache_repair.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/report.hpp"
#include "queue/cache_tables.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

// The version of the place commits the change. The numbers of items and bytes after it were written
// before.
void finish_change(CacheHeader& cache, TicketCanceller& tickets) {
  const CacheChange change(cache.change.load());
  if (change.is_none()) return;
  const std::uint32_t number = cache_table_of(change.place());
  if (number >= std::min(cache.tables.load(), CacheHeader::kTables)) return;
  const CacheTable table = cache_table(cache, number, tickets);
  if (!table) return;
  const CacheSpot spot = table.at(change.place());
  const bool has_item = CachePlace::has_item(spot.place->version.load());
  const std::uint64_t count = cache.changes.count.load();
  if (has_item != change.removes() && change.is_before(count)) cache.changes.count.store(count + 1);
  if (!has_item) {
    tickets.cancel_named(spot.place->item.ticket);
    spot.first->store(0);
  }
  cache.change.store(0);
}

// The next table is not in use yet.
void repair_changes(CacheHeader& cache, TicketCanceller& tickets) {
  try {
    finish_change(cache, tickets);
  } catch (const SessionError& error) {
    report(error.what());  // as does a process that uses the cache
  }
  const std::uint32_t next = cache.tables.load();
  if (next < CacheHeader::kTables) tickets.cancel_named(cache.records[next].item.ticket);
}

}  // namespace

void repair_cache(std::span<std::byte> bytes, const SlotSet& dead, TicketCanceller& tickets) {
  CacheHeader* const cache = cache_in(bytes);
  if (cache == nullptr) return;
  OwnerLock lock(cache->changes.lock);
  if (dead.has(lock.owner())) {
    repair_changes(*cache, tickets);
    lock.unlock_for_dead();
  }
  for (CacheBuild& build : cache->builds) {
    if (dead.has(build.owner.load() - 1)) build.owner.store(0);
  }
  lock.wake_waiters();
  WaitFlag(cache->builders).wake_everyone();
}

}  // namespace shmtensor
