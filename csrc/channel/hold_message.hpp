// Holds the block of a message whose ticket is left to others, and empties it after the last one.
#pragma once

#include "arena/ticket_record.hpp"
#include "session/held_block.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// Returns false if the block was freed, or is not in the arena.
[[nodiscard]] bool hold_message(Session& session, Arena& arena, const NamedTicket& named);

/// Holds it if it contains tickets and the arena is mapped; otherwise empty.
[[nodiscard]] HeldBlock hold_contents(Session& session, const NamedTicket& named);

/// Cancels the tickets of a message that no process will read any more, so that any process can
/// free the block. What cannot be cancelled is left to the manager; so is a message that this
/// process is still reading: the code that unpickles it may have received the next one.
void cancel_contents(Session& session, const HeldBlock& message) noexcept;

}  // namespace shmtensor
