#include "session/observer.hpp"

#include <bit>
#include <utility>

#include "base/error.hpp"
#include "os/clock.hpp"

namespace shmtensor {

std::optional<Observer> Observer::open(const SessionId& id) try {
  Connection connection = Connection::open(id, "");
  if (!connection) return std::nullopt;
  Message hello;
  hello.session = id;
  hello.join = Join::observe;
  std::optional<Reply> reply = connection.ask(hello);
  if (!reply || reply->message.kind != MessageKind::welcome) return std::nullopt;
  return Observer(std::move(connection), SessionMemory::open(id, std::move(reply->fd)));
} catch (const ForeignSession&) {
  return std::nullopt;
}

std::vector<Observer::Process> Observer::processes() const {
  std::vector<Process> found;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    const SlotRecord& record = memory_->slot(slot);
    if (is_in(record.status.load())) found.push_back({slot, record.pid.load()});
  }
  return found;
}

std::vector<Observer::InFlight> Observer::in_flight() const {
  std::vector<InFlight> found;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    const SlotRecord& record = memory_->slot(slot);
    if (record.incarnation.load() == 0) continue;
    const std::int32_t pid = record.status.load() == SlotStatus::unused ? 0 : record.pid.load();
    memory_->transit(slot).for_each_live(
        [&](std::uint32_t, const TicketGroup& group, std::uint32_t live) {
          if (group.kept()) return;
          const std::uint64_t block = group.block.load();
          const auto sent = static_cast<std::uint32_t>(group.mark.load());
          found.push_back({slot, pid, static_cast<ArenaNumber>(block >> 32),
                           static_cast<BlockNumber>(block),
                           static_cast<std::uint32_t>(std::popcount(live)), seconds_since(sent)});
        });
  }
  return found;
}

std::vector<Observer::ArenaSummary> Observer::arenas() {
  std::vector<ArenaSummary> found;
  Message message = message_for(MessageKind::next_arena, memory_->id());
  for (;;) {
    const std::optional<Reply> reply = connection_.ask(message);
    if (!reply || reply->message.kind != MessageKind::done) return found;
    message.arena = reply->message.arena;
    found.push_back({message.arena, static_cast<SlotNumber>(reply->message.slot),
                     static_cast<Strategy>(reply->message.strategy), reply->message.statistics});
  }
}

std::vector<QueueSummary> Observer::queues() {
  std::vector<QueueSummary> found;
  Message message = message_for(MessageKind::next_queue, memory_->id());
  for (;;) {
    const std::optional<Reply> reply = connection_.ask(message);
    if (!reply || reply->message.kind != MessageKind::done) return found;
    const QueueSummary& queue = found.emplace_back(reply->message.queue);
    message.arena = queue.arena;
    message.number = std::uint64_t{queue.block} + 1;
  }
}

Statistics Observer::statistics() {
  Message message = message_for(MessageKind::statistics, memory_->id());
  const std::optional<Reply> reply = connection_.ask(message);
  return reply ? reply->message.statistics : Statistics{};
}

std::uint64_t Observer::collect(std::uint64_t older_than_milliseconds) {
  Message message = message_for(MessageKind::collect, memory_->id());
  message.number = older_than_milliseconds;
  const std::optional<Reply> reply = connection_.ask(message);
  return reply ? reply->message.number : 0;
}

}  // namespace shmtensor
