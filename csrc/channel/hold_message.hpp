// Holds the block of a message whose ticket is left to others.
#pragma once

#include "arena/ticket_record.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// Returns false if the block was freed, or is not in the arena.
[[nodiscard]] bool hold_message(Session& session, Arena& arena, const NamedTicket& named);

}  // namespace shmtensor
