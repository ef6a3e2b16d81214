#include "manager/arena_registry.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "arena/reclaim.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "manager/drain.hpp"
#include "os/clock.hpp"
#include "os/page_reservation.hpp"
#include "queue/broadcast_repair.hpp"
#include "queue/cache_repair.hpp"
#include "sync/repair.hpp"

namespace shmtensor {

void ArenaRegistry::add(std::unique_ptr<Segment> segment, bool owner_lives,
                        const SessionMemory& memory, const SlotSet& unused) {
  std::vector<Found> found;
  found.push_back({std::move(segment), owner_lives});
  add(std::move(found), memory, unused);
}

void ArenaRegistry::add(std::vector<Found> found, const SessionMemory& memory,
                        const SlotSet& unused) {
  std::vector<Entry*> added;
  for (auto& [segment, owner_lives] : found) {
    const ArenaNumber number = segment->number();
    Entry entry;
    entry.segment = std::move(segment);
    // The owner may have retired it before this manager found it.
    if (!owner_lives || entry.segment->header().orphaned.load() != 0) make_orphan(entry);
    const auto [at, is_new] = entries_.try_emplace(number, std::move(entry));
    if (is_new) added.push_back(&at->second);
  }
  for (Entry* entry : added) clear_dead(*entry, memory, unused, {});
}

void ArenaRegistry::make_orphan(Entry& entry) {
  entry.segment->header().orphaned.store(1);
  entry.orphan = true;
  entry.reclaim.restart();
}

void ArenaRegistry::retire(ArenaNumber number) {
  if (Entry* const entry = entry_of(number)) make_orphan(*entry);
}

ArenaRegistry::Entry* ArenaRegistry::entry_of(ArenaNumber number) {
  const auto at = entries_.find(number);
  return at != entries_.end() ? &at->second : nullptr;
}

const Segment* ArenaRegistry::find(ArenaNumber number) const {
  const auto at = entries_.find(number);
  return at != entries_.end() ? at->second.segment.get() : nullptr;
}

std::size_t ArenaRegistry::owned_by(SlotNumber slot) const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [slot](const auto& pair) {
        return !pair.second.orphan && pair.second.segment->header().owner == slot;
      }));
}

bool ArenaRegistry::keep_chunk(ArenaNumber number, std::uint32_t chunk, Fd descriptor) {
  Entry* const entry = entry_of(number);
  if (entry == nullptr || !is_on_device(entry->segment->strategy())) return false;
  entry->chunks.try_emplace(chunk, std::move(descriptor));
  return true;
}

const Fd* ArenaRegistry::find_chunk(ArenaNumber number, std::uint32_t chunk) {
  Entry* const entry = entry_of(number);
  if (entry == nullptr) return nullptr;
  const auto found = entry->chunks.find(chunk);
  return found != entry->chunks.end() ? &found->second : nullptr;
}

void ArenaRegistry::drop_chunk(ArenaNumber number, std::uint32_t chunk) {
  if (Entry* const entry = entry_of(number)) entry->chunks.erase(chunk);
}

void ArenaRegistry::notify_owners() const noexcept {
  for (const auto& [number, entry] : entries_) entry.segment->notify_owner();
}

void ArenaRegistry::free_marked(Entry& entry, BlockNumber block) {
  entry.segment->freed().mark(block);
  entry.segment->notify_owner();
  entry.reclaim.restart();
}

void ArenaRegistry::sweep(const SessionMemory& memory, const SlotSet& dead,
                          const Happened& happened) {
  // Before the blocks are searched, of which one may be unused then. Tickets in a table that cannot
  // be mapped stay until `gc`.
  for (SlotNumber sender = 0; sender < kMaxSlots; ++sender) {
    if (!dead.has(sender)) continue;
    try {
      memory.transit(sender).end_sender();
    } catch (const Error& error) {
      report(error.what());
    }
  }
  for (auto& pair : entries_) {
    Entry& entry = pair.second;
    if (!entry.orphan && dead.has(entry.segment->header().owner)) make_orphan(entry);
    clear_dead(entry, memory, dead, happened);
  }
}

QueueHeader* ArenaRegistry::queue(ArenaNumber number, BlockNumber block) const {
  const Segment* const segment = find(number);
  if (segment == nullptr || block >= segment->capacity()) return nullptr;
  const auto contents = TicketContents::of(segment->record(block).contents.load());
  const auto bytes = bytes_in(*segment, block);
  if (contents.kind != TicketContents::Kind::queue || !bytes) return nullptr;
  return bytes->size() < sizeof(QueueHeader) ? nullptr
                                             : reinterpret_cast<QueueHeader*>(bytes->data());
}

void ArenaRegistry::clear_dead(Entry& entry, const SessionMemory& memory, const SlotSet& dead,
                               const Happened& happened) {
  const Segment& segment = *entry.segment;
  Drain drain(*this, memory);
  shmtensor::sweep(
      segment, memory, dead,
      [&](BlockNumber block) {
        const auto contents = TicketContents::of(segment.record(block).contents.load());
        const bool is_queue = contents.kind == TicketContents::Kind::queue;
        if (contents.kind < TicketContents::Kind::queue ||
            contents.kind == TicketContents::Kind::pipe_end) {
          return;
        }
        const auto bytes = bytes_in(segment, block);
        if (!bytes) return;
        if (contents.kind == TicketContents::Kind::primitive) {
          sync::repair(*bytes, memory, dead);
        } else if (contents.kind == TicketContents::Kind::cache) {
          repair_cache(*bytes, dead, drain);
        } else if (!is_queue) {
          if (const auto ring = BroadcastRing::in(*bytes)) repair_broadcast(*ring, dead, drain);
        } else if (bytes->size() >= sizeof(QueueHeader)) {
          auto& queue = *reinterpret_cast<QueueHeader*>(bytes->data());
          const KeptMessages kept = KeptMessages::in(*bytes);
          repair_queue(queue, kept, dead, drain);
          for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
            // A process may have been killed between the flag and the pipe.
            if (!happened || queue.pipe(event).load() == 0) continue;
            if (WatchFlag(queue.watch(event)).is_armed() && !has_happened(queue, kept, event)) {
              continue;
            }
            happened({.arena = segment.number(), .block = block, .event = event});
          }
        }
      },
      [&](BlockNumber block, FreeResult result) {
        if (result == FreeResult::freed) return free_marked(entry, block);
        drain.add(segment.number(), block);
      });
  drain.run();
  // A process that freed the last block of an orphan arena may have been killed before it marked
  // that.
  if (entry.orphan) entry.reclaim.restart();
}

void ArenaRegistry::drain(const SessionMemory& memory, ArenaNumber number, BlockNumber block) {
  Drain drain(*this, memory);
  drain.add(number, block);
  drain.run();
}

FreeResult ArenaRegistry::try_free_block(const SessionMemory& memory, ArenaNumber number,
                                         BlockNumber block) {
  Entry* const entry = entry_of(number);
  if (entry == nullptr || block >= entry->segment->capacity()) return FreeResult::none;
  const FreeResult result = try_free(*entry->segment, block, memory);
  if (result == FreeResult::freed) free_marked(*entry, block);
  return result;
}

void ArenaRegistry::note_free(ArenaNumber number, BlockNumber block) {
  if (Entry* const entry = entry_of(number)) free_marked(*entry, block);
}

template <typename Chosen>
std::uint64_t ArenaRegistry::cancel_tickets(const SessionMemory& memory, Chosen&& chosen) {
  std::uint64_t cancelled = 0;
  memory.for_each_table([&](TransitTable& table) {
    table.for_each_live([&](std::uint32_t, TicketGroup& group, std::uint32_t) {
      std::uint64_t word = group.word.load();
      const std::uint64_t block = group.block.load();
      const auto sent = static_cast<std::uint32_t>(group.mark.load());
      if (!chosen(sent)) return;
      const auto live = static_cast<std::uint32_t>(word);
      // Replaced only if unchanged: a ticket that was published since belongs to another message.
      if (!group.word.compare_exchange_strong(word, word & ~std::uint64_t{0xffffffff})) return;
      cancelled += static_cast<std::uint64_t>(std::popcount(live));
      const auto arena = static_cast<ArenaNumber>(block >> 32);
      const auto number = static_cast<BlockNumber>(block);
      if (try_free_block(memory, arena, number) == FreeResult::draining) {
        drain(memory, arena, number);
      }
    });
  });
  return cancelled;
}

std::uint64_t ArenaRegistry::collect(const SessionMemory& memory,
                                     std::uint64_t older_than_milliseconds) {
  const std::uint64_t cancelled = cancel_tickets(memory, [&](std::uint32_t sent) {
    // `unpublish` removes those of a name.
    return !TicketGroup::is_kept(sent) &&
           std::uint64_t{seconds_since(sent)} * 1000 >= older_than_milliseconds;
  });
  for (auto& [number, entry] : entries_) {
    if (entry.orphan) entry.reclaim.restart_if_any_freed(*entry.segment);
  }
  return cancelled;
}

void ArenaRegistry::cancel_all_but(const SessionMemory& memory, const std::vector<bool>& marks) {
  cancel_tickets(memory, [&marks](std::uint32_t sent) {
    const std::uint32_t mark = sent - TicketGroup::kFirstKept;
    // Those of a queue are cancelled when its last holder, or the object that contains it, ends.
    return !TicketGroup::is_kept(sent) || (mark < marks.size() && !marks[mark]);
  });
}

bool ArenaRegistry::has_orphans() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& pair) { return pair.second.orphan; });
}

bool ArenaRegistry::unfinished() const {
  return !pending_.empty() || std::any_of(entries_.begin(), entries_.end(), [](const auto& pair) {
    return pair.second.orphan && !pair.second.reclaim.is_done();
  });
}

void ArenaRegistry::reclaim_orphans() {
  ReclaimQuota quota;
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    const bool stays = !entry.orphan || entry.reclaim.run(*entry.segment, entry.chunks, quota);
    at = stays ? std::next(at) : entries_.erase(at);
  }
  std::erase_if(pending_, [&](PendingReclaim& left) {
    return quota.discard(left.file, left.reclaimed, file_size(left.file));
  });
}

const Segment* ArenaRegistry::after(ArenaNumber number) const {
  const auto at = entries_.upper_bound(number);
  return at != entries_.end() ? at->second.segment.get() : nullptr;
}

}  // namespace shmtensor
