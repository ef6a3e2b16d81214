// The changes of a cache: items that are added, removed and evicted. docs/design/caches.md explains
// the order of the steps.
#include <algorithm>
#include <cstring>

#include "arena/reclaim.hpp"
#include "channel/cache.hpp"
#include "channel/channel_call.hpp"
#include "channel/message_entry.hpp"
#include "os/clock.hpp"

namespace shmtensor {
namespace {

// A process may have added none of millions of items.
constexpr std::uint64_t kMostPlacesForOwn = 1 << 16;

std::uint64_t bytes_with(const Outgoing& item) noexcept {
  return sizeof(CachePlace) + item.block_bytes;
}

}  // namespace

Attempt Cache::try_add(const CacheKey& key, const Outgoing& item, ChannelCall& call) {
  return call.with_lock(header_.changes, [&] { return add(key, item, call); });
}

Attempt Cache::try_remove(const CacheKey& key, ChannelCall& call) {
  return call.with_lock(header_.changes, [&] {
    if (!open_tables(call)) return Attempt::unmapped;
    const std::optional<CacheSpot> found = find(key);
    return found ? remove(*found, call) : Attempt::empty;
  });
}

Attempt Cache::try_evict(Evict which, ChannelCall& call) {
  return call.with_lock(header_.changes,
                        [&] { return open_tables(call) ? evict(which, call) : Attempt::unmapped; });
}

Attempt Cache::add(const CacheKey& key, const Outgoing& item, ChannelCall& call) {
  if (!open_tables(call)) return Attempt::unmapped;
  if (find(key)) return Attempt::done;
  const std::uint64_t most = header_.max_bytes.load();
  const std::uint64_t added = bytes_with(item);
  if (most != 0 && added > most) return Attempt::full;
  while (most != 0 && header_.changes.counted_bytes() + added > most) {
    if (const Attempt lack = evict(Evict::unheld, call); lack != Attempt::done) return lack;
  }
  for (;;) {
    for (const OpenedTable* opened = newest_.load(); opened != nullptr; opened = opened->before) {
      if (const auto free = opened->table.find_free(key)) {
        write(*free, key, item);
        return Attempt::done;
      }
    }
    if (const Attempt lack = add_table(call); lack != Attempt::done) return lack;
    if (!open_tables(call)) return Attempt::unmapped;
  }
}

// A table that was made for another number is freed after the call.
Attempt Cache::add_table(ChannelCall& call) {
  const std::uint32_t number = header_.tables.load();
  if (number >= CacheHeader::kTables) return Attempt::full;
  if (!call.ring_ || call.entries_ != number) {
    call.used_ring_ = std::move(call.ring_);
    call.entries_ = number;
    return Attempt::ring;
  }
  write_entry(header_.records[number].item, {.content = {}, .block = *call.ring_});
  header_.tables.store(number + 1);
  call.used_ring_ = std::move(call.ring_);
  return Attempt::done;
}

void Cache::make_table(ChannelCall& call) {
  if (call.ring_) return;
  const std::uint64_t size = cache_table_bytes(call.entries_);
  HeldBlock table(session_.allocate(size, Strategy::file_descriptor));
  std::memset(table->arena->bytes(table->number, Access::read_write).data(), 0, size);
  table.set_contents(cache_table_contents(call.entries_));
  call.ring_ = std::move(table);
}

void Cache::write_totals(std::int64_t items, std::int64_t bytes) noexcept {
  const std::uint64_t count = header_.changes.count.load();
  const auto after = [](std::uint64_t before, std::int64_t added) {
    return before + static_cast<std::uint64_t>(added);
  };
  header_.items[(count + 1) % 2].store(after(header_.items[count % 2].load(), items));
  header_.changes.bytes[(count + 1) % 2].store(after(header_.changes.bytes_of(count), bytes));
}

// The place is free, so no reader finds it until its version is odd.
void Cache::write(const CacheSpot& to, const CacheKey& key, const Outgoing& item) {
  const std::uint64_t count = header_.changes.count.load();
  CachePlace& place = *to.place;
  const std::uint64_t bytes = bytes_with(item);
  header_.change.store(CacheChange(to.number, false, count).bits());
  try {
    write_entry(place.item, item);
  } catch (...) {  // the ticket was not issued
    header_.change.store(0);
    throw;
  }
  place.item.bytes.store(bytes);
  place.second.store(key.second);
  place.used.store(monotonic_nanoseconds());
  to.first->store(key.first);
  write_totals(1, static_cast<std::int64_t>(bytes));
  place.version.store(place.version.load() + 1);
  header_.changes.count.store(count + 1);
  header_.change.store(0);
}

Attempt Cache::remove(const CacheSpot& spot, ChannelCall& call) {
  CachePlace& place = *spot.place;
  if (!call.can_cancel(place.item)) return Attempt::unmapped;
  const std::uint64_t count = header_.changes.count.load();
  header_.change.store(CacheChange(spot.number, true, count).bits());
  write_totals(-1, -static_cast<std::int64_t>(place.item.bytes.load()));
  place.version.store(place.version.load() + 1);
  header_.changes.count.store(count + 1);
  call.cancel(place.item);
  spot.first->store(0);
  header_.change.store(0);
  return Attempt::done;
}

Attempt Cache::remove_lost(const CacheSpot& spot, ChannelCall& call) {
  const MessageEntry& entry = spot.place->item;
  const std::optional<NamedTicket> named = entry.ticket.read();
  if (!named) return Attempt::empty;
  if (!session_.memory().is_live(*named)) return remove(spot, call);  // only in damaged memory
  if (call.arena(named->arena, static_cast<Strategy>(entry.strategy.load())) != nullptr) {
    return Attempt::empty;
  }
  return call.arena_is_gone(named->arena) ? remove(spot, call) : Attempt::unmapped;
}

bool Cache::is_in_own_arena(const MessageEntry& entry) const noexcept {
  const std::optional<NamedTicket> named = entry.ticket.read();
  const PinnedArena arena = named ? session_.find(named->arena) : PinnedArena();
  return arena && arena->owned();
}

std::optional<CacheSpot> Cache::sample(Evict which, std::uint64_t& hand) const noexcept {
  std::optional<CacheSpot> oldest;
  std::uint32_t seen = 0;
  const std::uint64_t most = which == Evict::own ? kMostPlacesForOwn : ~std::uint64_t{0};
  for (std::uint64_t left = std::min(places(), most); left != 0 && seen < CacheHeader::kSample;
       --left) {
    hand = hand + 1 < places() ? hand + 1 : 0;
    const CacheSpot here = spot(hand);
    if (here.first->load(std::memory_order_relaxed) == 0) continue;
    // The manager could not map the table when the process that removed the item was killed.
    if (!CachePlace::has_item(here.place->version.load(std::memory_order_relaxed))) continue;
    if (which == Evict::own && !is_in_own_arena(here.place->item)) continue;
    ++seen;
    if (!oldest || here.place->used.load(std::memory_order_relaxed) <
                       oldest->place->used.load(std::memory_order_relaxed)) {
      oldest = here;
    }
  }
  return oldest;
}

// An item that a process holds is in use now.
Attempt Cache::evict(Evict which, ChannelCall& call) {
  for (std::uint32_t tries = 0; tries < CacheHeader::kMostTries; ++tries) {
    std::uint64_t hand = header_.hand.load();
    const std::optional<CacheSpot> oldest = sample(which, hand);
    if (!oldest) return Attempt::full;
    const MessageEntry& entry = oldest->place->item;
    if (!call.can_cancel(entry)) return Attempt::unmapped;
    header_.hand.store(hand);
    if (which == Evict::any || !is_held(entry, call)) {
      const Attempt result = remove(*oldest, call);
      if (result == Attempt::done && which != Evict::any) header_.evictions.fetch_add(1);
      return result;
    }
    oldest->place->used.store(monotonic_nanoseconds(), std::memory_order_relaxed);
  }
  return Attempt::full;
}

bool Cache::is_held(const MessageEntry& entry, ChannelCall& call) noexcept {
  const std::optional<NamedTicket> named = entry.ticket.read();
  if (!named) return false;
  const Arena* const arena = call.arena(named->arena, static_cast<Strategy>(entry.strategy.load()));
  return arena != nullptr && named->block < arena->segment().capacity() &&
         has_holder(arena->segment(), named->block);
}

}  // namespace shmtensor
