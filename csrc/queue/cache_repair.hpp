// Repairs a cache after a process that used it has died.
#pragma once

#include <cstddef>
#include <span>

#include "arena/slot_set.hpp"
#include "queue/repair.hpp"

namespace shmtensor {

/// As `repair_queue`: completes, or undoes, the change that a dead process has begun, unlocks what
/// it had locked, lets other processes build what it was building, and wakes all waiters.
void repair_cache(std::span<std::byte> bytes, const SlotSet& dead, TicketCanceller& tickets);

}  // namespace shmtensor
