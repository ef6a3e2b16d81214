// Repairs a primitive after a process that had it has died.
#pragma once

#include <cstddef>
#include <span>

#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"

namespace shmtensor::sync {

/// Gives back what dead processes had, and wakes all that wait. To be called by the manager before
/// it clears the holder bits of the dead slots. May be repeated.
void repair(std::span<std::byte> block, const SessionMemory& memory, const SlotSet& dead);

}  // namespace shmtensor::sync
