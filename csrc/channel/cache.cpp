#include "channel/cache.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "channel/channel_call.hpp"
#include "channel/hold_message.hpp"
#include "channel/message_entry.hpp"
#include "os/clock.hpp"

namespace shmtensor {
namespace {

CacheHeader& cache_of(const Block& block) {
  CacheHeader* const header = cache_in(block.arena->bytes(block.number, Access::read_write));
  if (header == nullptr) throw SessionError("not a cache of this version, or a damaged one");
  return *header;
}

}  // namespace

// As for a broadcast: the names of the records are cleared first.
void Cache::create(const Block& block, const CacheOptions& options) {
  const std::span<std::byte> bytes = block.arena->bytes(block.number, Access::read_write);
  std::memset(bytes.data(), 0, kBytes);
  auto& header = *reinterpret_cast<CacheHeader*>(bytes.data());
  header.max_bytes.store(options.max_bytes);
  header.label = options.label;
  header.tables.store(1);
  header.magic.store(kCacheMagic);
  block.arena->set_contents(block.number, CacheHeader::contents());
}

Cache::Cache(Session& session, const Block& block) : session_(session), header_(cache_of(block)) {
  first_.table = {header_.first_places.data(), header_.first_buckets.data(), 0};
}

Cache::~Cache() {
  for (OpenedTable* opened = newest_.load(); opened != &first_;) {
    delete std::exchange(opened, opened->before);
  }
}

bool Cache::open_tables(ChannelCall& call) {
  const std::uint32_t count = std::min(header_.tables.load(), CacheHeader::kTables);
  for (;;) {
    OpenedTable* newest = newest_.load();
    const std::uint32_t number = newest->number + 1;
    if (number >= count) return true;
    auto next = std::make_unique<OpenedTable>();
    call.ring_arena_ = &next->arena;
    next->table = cache_table(header_, number, call);
    if (!next->table) {
      const std::optional<NamedTicket> named = header_.records[number].item.ticket.read();
      if (named && call.arena_is_gone(named->arena)) throw_lost(named->arena);
      return false;
    }
    next->number = number;
    next->before = newest;
    if (newest_.compare_exchange_strong(newest, next.get())) static_cast<void>(next.release());
  }
}

void Cache::throw_lost(ArenaNumber arena) {
  throw StaleHandle("a cache cannot be used any more: the arena " + std::to_string(arena) +
                    " of one of its tables no longer exists, because the manager was killed "
                    "together with all processes that had it open");
}

// The last table has half of all places.
std::optional<CacheSpot> Cache::find(const CacheKey& key) const noexcept {
  for (const OpenedTable* opened = newest_.load(); opened != nullptr; opened = opened->before) {
    if (const auto found = opened->table.find(key)) return found;
  }
  return std::nullopt;
}

// An item has a live ticket until after its version has changed. So if its block cannot be held, it
// was removed, or its arena is gone. Each time this begins again, the item was removed.
Attempt Cache::try_find(const CacheKey& key, Incoming& item, ChannelCall& call) {
  session_.require_slot();
  for (;;) {
    if (!open_tables(call)) return Attempt::unmapped;
    const std::optional<CacheSpot> found = find(key);
    if (!found) return Attempt::empty;
    CachePlace& place = *found->place;
    const MessageEntry& entry = place.item;
    const auto is_same = [&] { return place.version.load() == found->version; };
    const auto strategy = static_cast<Strategy>(entry.strategy.load(std::memory_order_acquire));
    copy_entry(entry, item);
    const std::optional<NamedTicket> named = entry.ticket.read();
    if (!is_same()) continue;
    if (named) {
      Arena* const arena = call.arena(named->arena, strategy);
      if (!call.can_use(arena, *named, item.access)) return Attempt::unmapped;
      item.block = hold_message(session_, arena, *named);
      if (!item.block && is_same()) return Attempt::empty;
      if (!item.block) continue;
    }
    place.used.store(monotonic_nanoseconds(), std::memory_order_relaxed);
    return Attempt::done;
  }
}

void Cache::prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time) {
  switch (attempt) {
    case Attempt::locked:
      return call.wait_for_lock(time);
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::ring:
      return make_table(call);
    default:
      return;
  }
}

void Cache::count(bool hit) noexcept {
  CacheCounts& counts = header_.counts[session_.slot() % CacheHeader::kStripes];
  (hit ? counts.hits : counts.misses).fetch_add(1, std::memory_order_relaxed);
}

Cache::Numbers Cache::numbers() const noexcept {
  const std::uint64_t count = header_.changes.count.load();
  Numbers numbers{.items = header_.items[count % 2].load(),
                  .bytes = header_.changes.bytes_of(count),
                  .evictions = header_.evictions.load(),
                  .max_bytes = header_.max_bytes.load()};
  for (const CacheCounts& counts : header_.counts) {
    numbers.hits += counts.hits.load(std::memory_order_relaxed);
    numbers.misses += counts.misses.load(std::memory_order_relaxed);
  }
  return numbers;
}

}  // namespace shmtensor
