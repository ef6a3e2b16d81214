#include "queue/pipe_end.hpp"

#include "base/error.hpp"
#include "base/report.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

// Also if no process seems to wait: a manager that was killed may have cleared the flag, no more.
void wake(QueueHeader& queue) noexcept {
  for (Atomic<std::uint32_t>* word : {&queue.getters, &queue.putters}) {
    WaitFlag(*word).wake_everyone();
  }
}

// Messages are left that are put at this moment, by a process that has read that the queue is open:
// they end with the queue. Threads that had begun before may still take messages, and retire a
// ring: then its block may be another one by now, so its ticket is read after the record in it.
void cancel_messages(QueueHeader& queue, TicketCanceller& tickets) {
  const std::uint32_t last = queue.tail.ring.load();
  std::uint32_t number = queue.head.ring.load();
  for (std::uint32_t i = 0; i < QueueHeader::kRings && number != last + 1; ++i, ++number) {
    const std::optional<NamedTicket> block = queue.ring(number).ticket.read();
    const auto is_retired = [&] { return block && !tickets.is_live(*block); };
    if (is_retired()) continue;
    const Ring ring = ring_at(queue, number, tickets);
    if (!ring) continue;
    for (std::uint64_t message = 0; message <= ring.room(); ++message) {
      const auto named = ring.entry(ring.start() + message).ticket.read();
      if (named && !is_retired()) tickets.cancel(*named);
    }
  }
}

}  // namespace

void hang_up(std::span<std::byte> end, const std::function<QueueHeader*(const QueueName&)>& find,
             TicketCanceller& tickets) {
  if (end.size() < sizeof(PipeEnd)) return;
  const auto& pipe = *reinterpret_cast<const PipeEnd*>(end.data());
  if (pipe.magic.load() != kPipeEndMagic) return;
  const auto queue_of = [&find](const PipeEnd::Record& record) -> QueueHeader* {
    const std::optional<QueueName> name = record.read();
    return name ? find(*name) : nullptr;
  };
  // In this order: a process that has received all does not send any more.
  QueueHeader* const read = queue_of(pipe.read);
  QueueHeader* const written = queue_of(pipe.written);
  for (QueueHeader* queue : {read, written}) {
    if (queue != nullptr) queue->stage.store(QueueStage::shut_down);
  }
  for (QueueHeader* queue : {read, written}) {
    if (queue != nullptr) wake(*queue);
  }
  if (read == nullptr) return;
  try {
    cancel_messages(*read, tickets);
  } catch (const SessionError& error) {
    report(error.what());  // it is damaged
  }
}

}  // namespace shmtensor
