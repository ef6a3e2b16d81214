// Holds the block of a message. If its ticket is left to others, empties it after the last one.
#pragma once

#include "arena/ticket_record.hpp"
#include "session/held_block.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// Empty if the block was freed, is not in the arena, or that is null. The ticket is left to
/// others; with `claims`, this process consumes it, and the result is empty if another one has.
[[nodiscard]] HeldBlock hold_message(Session& session, Arena* arena, const NamedTicket& named,
                                     bool claims = false);

/// Holds it if it contains tickets and the arena is mapped; otherwise empty.
[[nodiscard]] HeldBlock hold_contents(Session& session, const NamedTicket& named);

/// Cancels the tickets of a message that no process will read any more, so that any process can
/// free the block. What cannot be cancelled is left to the manager; so is a message that this
/// process is still reading: the code that unpickles it may have received the next one.
void cancel_contents(Session& session, const HeldBlock& message) noexcept;

}  // namespace shmtensor
