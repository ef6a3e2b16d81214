#include "channel/hold_message.hpp"

namespace shmtensor {

bool hold_message(Session& session, Arena& arena, const NamedTicket& named) {
  constexpr Ticket kNoTicket{.group = TransitTable::kGroups};
  if (named.block >= arena.segment().capacity() || named.ticket.sender >= kMaxSlots) return false;
  TransitTable& transit = session.memory().transit(named.ticket.sender);
  bool held = false;
  {
    LocalTable::Lock lock(arena.local(), named.block);
    held = arena.hold(lock, named.block, named.generation, kNoTicket, transit);
  }
  if (!held) arena.unpin_and_try_free(named.block);
  return held;
}

}  // namespace shmtensor
