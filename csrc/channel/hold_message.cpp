#include "channel/hold_message.hpp"

#include <cstddef>
#include <exception>
#include <optional>
#include <span>

namespace shmtensor {

// The table is mapped also if the ticket is left to others, so that it cannot fail later, when this
// process may consume the ticket.
HeldBlock hold_message(Session& session, Arena* arena, const NamedTicket& named, bool claims) {
  if (arena == nullptr || named.block >= arena->segment().capacity() ||
      named.ticket.sender >= kMaxSlots) {
    return {};
  }
  TransitTable& transit = session.memory().transit(named.ticket.sender);
  bool held = false;
  {
    LocalTable::Lock lock(arena->local(), named.block);
    held = claims ? arena->take(lock, named, transit) : arena->hold(lock, named, nullptr);
  }
  if (held) return HeldBlock({arena, named.block});
  arena->unpin_and_try_free(named.block);
  return {};
}

HeldBlock hold_contents(Session& session, const NamedTicket& named) {
  const PinnedArena arena = session.find(named.arena);
  if (!arena || named.block >= arena->segment().capacity() ||
      !arena->contains_tickets(named.block)) {
    return {};
  }
  return hold_message(session, arena.get(), named);
}

void cancel_contents(Session& session, const HeldBlock& message) noexcept {
  if (LocalTable::Lock(message->arena->local(), message->number).count() != 1) return;
  try {
    const std::span<std::byte> bytes = message->arena->bytes(message->number, Access::read_write);
    const TicketContents contents = message->arena->contents(message->number);
    if (contents.kind != TicketContents::Kind::message || !contents.fit(bytes.size())) return;
    for (std::uint32_t i = 0; i < contents.count; ++i) {
      const std::optional<NamedTicket> named = contents.record(bytes, i).read();
      if (!named) continue;
      const PinnedArena arena = session.find(named->arena);
      if (!arena || named->block >= arena->segment().capacity() ||
          named->ticket.sender >= kMaxSlots) {
        return;
      }
      arena->cancel_send(named->block, named->generation, named->ticket);
    }
    message.set_contents({});
  } catch (const std::exception&) {
    // Address space or memory is short.
  }
}

}  // namespace shmtensor
