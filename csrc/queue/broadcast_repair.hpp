// Repairs a broadcast after a process that used it has died.
#pragma once

#include "arena/slot_set.hpp"
#include "queue/broadcast_ring.hpp"
#include "queue/repair.hpp"

namespace shmtensor {

/// As `repair_queue`: unlocks what dead writers had locked, removes dead readers, cancels the
/// tickets of messages that no reader has still to read, and wakes all waiters.
void repair_broadcast(const BroadcastRing& ring, const SlotSet& dead, TicketCanceller& tickets);

}  // namespace shmtensor
