#include "channel/hold_message.hpp"

namespace shmtensor {

bool hold_message(Session& session, Arena& arena, const NamedTicket& named) {
  if (named.block >= arena.segment().capacity() || named.ticket.sender >= kMaxSlots) return false;
  // Mapped now, so that it cannot fail later, when this process may consume the ticket.
  static_cast<void>(session.memory().transit(named.ticket.sender));
  bool held = false;
  {
    LocalTable::Lock lock(arena.local(), named.block);
    held = arena.hold(lock, named, nullptr);
  }
  if (!held) arena.unpin_and_try_free(named.block);
  return held;
}

}  // namespace shmtensor
