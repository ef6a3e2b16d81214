#include "manager/session_statistics.hpp"

#include <bit>

#include "arena/block_word.hpp"
#include "base/error.hpp"
#include "os/page_reservation.hpp"
#include "queue/summary.hpp"

namespace shmtensor {

std::uint64_t count_in_flight(const SessionMemory& memory) {
  std::uint64_t count = 0;
  memory.for_each_table([&](TransitTable& table) {
    table.for_each_live([&](std::uint32_t, TicketGroup& group, std::uint32_t live) {
      if (!group.kept()) count += static_cast<std::uint64_t>(std::popcount(live));
    });
  });
  return count;
}

void count(const Segment& segment, const SessionMemory& memory, Statistics& statistics) {
  const std::uint32_t capacity = segment.capacity();
  for (BlockNumber block = 0; block < capacity; ++block) {
    if (BlockWord(segment.record(block).word.load()).is_free()) continue;
    ++statistics.blocks;
    statistics.bytes_live += segment.record(block).size.load();
    const auto queue = summarize_queue(segment, block, memory);
    if (queue && !queue->is_cache) {
      ++statistics.queues;
      statistics.queued += queue->messages;
    }
  }
  try {
    statistics.bytes_reserved += file_usage(*segment.file());
    if (segment.strategy() != Strategy::device) return;
    for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
      statistics.bytes_reserved += segment.chunk(chunk).size.load();
    }
  } catch (const Error&) {
    // A named object that was unlinked: its pages cannot be counted.
  }
}

void count(const ArenaRegistry& arenas, const SessionMemory& memory, Statistics& statistics) {
  statistics.arenas = arenas.size();
  for (const Segment* arena = arenas.after(0); arena; arena = arenas.after(arena->number())) {
    count(*arena, memory, statistics);
  }
}

std::optional<QueueSummary> next_queue(const ArenaRegistry& arenas, const SessionMemory& memory,
                                       ArenaNumber arena, std::uint64_t block) {
  const Segment* segment = arenas.find(arena);
  if (segment == nullptr) block = 0;
  for (segment = segment ? segment : arenas.after(arena); segment;
       segment = arenas.after(segment->number()), block = 0) {
    for (const std::uint32_t capacity = segment->capacity(); block < capacity; ++block) {
      const auto queue = summarize_queue(*segment, static_cast<BlockNumber>(block), memory);
      if (queue) return queue;
    }
  }
  return std::nullopt;
}

}  // namespace shmtensor
