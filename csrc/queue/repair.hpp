// Repairs a queue after a process that used it has died.
#pragma once

#include <optional>

#include "arena/slot_set.hpp"
#include "arena/ticket_record.hpp"
#include "queue/kept.hpp"
#include "queue/layout.hpp"
#include "queue/rings.hpp"

namespace shmtensor {

/// What the repair needs of the manager.
class TicketCanceller : public RingMapper {
 public:
  /// Cancels the ticket, if it is live, and tries to free its block in either case: a killed
  /// process may have done the first only.
  virtual void cancel(const NamedTicket& named) = 0;
  [[nodiscard]] virtual bool is_live(const NamedTicket& named) = 0;

  /// Cancels the ticket that a record names, if it names one.
  void cancel_named(const TicketRecord& record) {
    if (const std::optional<NamedTicket> named = record.read()) cancel(*named);
  }
};

/// Finishes what dead processes have begun, unlocks what they had locked, returns the messages that
/// they had not completed, and wakes all waiters. To be called by the manager before it clears the
/// holder bits of the dead slots. May be repeated.
void repair_queue(QueueHeader& queue, const KeptMessages& kept, const SlotSet& dead,
                  TicketCanceller& tickets);

}  // namespace shmtensor
