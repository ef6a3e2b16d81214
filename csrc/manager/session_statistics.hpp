// What a session has, as `ls`, `top` and `stats` show it.
#pragma once

#include <cstdint>
#include <optional>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "manager/arena_registry.hpp"
#include "manager/protocol.hpp"

namespace shmtensor {

/// Counts the live tickets of all slots, without those of published names.
[[nodiscard]] std::uint64_t count_in_flight(const SessionMemory& memory);

/// Adds the counts of one arena.
void count(const Segment& segment, const SessionMemory& memory, Statistics& statistics);
/// Adds the counts of all arenas, and their number.
void count(const ArenaRegistry& arenas, const SessionMemory& memory, Statistics& statistics);

/// Returns the first queue in this block or after it.
[[nodiscard]] std::optional<QueueSummary> next_queue(const ArenaRegistry& arenas,
                                                     const SessionMemory& memory, ArenaNumber arena,
                                                     std::uint64_t block);

}  // namespace shmtensor
