#include "bindings/session/observer.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "bindings/session/name_table.hpp"
#include "bindings/session/session_access.hpp"
#include "manager/connection.hpp"
#include "os/clock.hpp"
#include "session/session_name.hpp"

namespace shmtensor::python {
namespace {

using py::literals::operator""_a;

/// A session that this process does not join: it uses no slot and keeps no memory alive.
struct Observed {
  Connection manager;
  std::unique_ptr<SessionMemory> memory;

  /// The answer, if it describes something.
  [[nodiscard]] std::optional<Message> ask(const Message& request) {
    const std::optional<Reply> reply = manager.ask(request);
    if (!reply || reply->message.kind != MessageKind::done) return std::nullopt;
    return reply->message;
  }
  [[nodiscard]] Message request(MessageKind kind) const { return message_for(kind, memory->id()); }
};

// Nothing if no manager of this user serves the session.
std::optional<Observed> reach(const std::string& name) {
  Message hello = message_for(MessageKind::hello, session_named(name));
  hello.join = Join::observe;
  try {
    Connection manager = Connection::open(hello.session, "");
    std::optional<Reply> reply = manager ? manager.ask(hello) : std::nullopt;
    if (!reply || reply->message.kind != MessageKind::welcome) return std::nullopt;
    return Observed{std::move(manager), SessionMemory::open(hello.session, std::move(reply->fd))};
  } catch (const ForeignSession&) {
    return std::nullopt;
  }
}

template <typename Number>
py::object number_or_none(bool there, Number number) {
  return there ? py::object(py::int_(number)) : py::none();
}

// Of the task that began then. A time namespace can shift the begin into the future.
py::object age_of_task(std::uint64_t begin) {
  const std::uint64_t now = std::max(monotonic_nanoseconds(), begin);
  return number_or_none(begin != 0, (now - begin) / 1'000'000'000);
}

py::list processes_of(const SessionMemory& memory) {
  py::list processes;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    const SlotRecord& record = memory.slot(slot);
    if (!is_in(record.status.load())) continue;
    processes.append(py::dict("slot"_a = slot, "pid"_a = record.pid.load(),
                              "busy"_a = age_of_task(record.busy_since.load())));
  }
  return processes;
}

py::list arenas_of(Observed& session) {
  py::list arenas;
  Message request = session.request(MessageKind::next_arena);
  while (const auto answer = session.ask(request)) {
    request.arena = answer->arena;
    const Statistics& counts = answer->statistics;
    arenas.append(py::dict("arena"_a = answer->arena,
                           "owner"_a = number_or_none(answer->slot != kNoSlot, answer->slot),
                           "strategy"_a = name_of(static_cast<Strategy>(answer->strategy)),
                           "blocks"_a = counts.blocks, "bytes_live"_a = counts.bytes_live,
                           "bytes_reserved"_a = counts.bytes_reserved));
  }
  return arenas;
}

py::list in_flight_of(const SessionMemory& memory) {
  py::list in_flight;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    const SlotRecord& record = memory.slot(slot);
    if (record.incarnation.load() == 0) continue;
    const bool used = record.status.load() != SlotStatus::unused;
    const std::int32_t pid = used ? record.pid.load() : 0;
    memory.transit(slot).for_each_live(
        [&](std::uint32_t, const TicketGroup& group, std::uint32_t live) {
          if (group.kept()) return;
          const std::uint64_t block = group.block.load();
          in_flight.append(py::dict(
              "sender"_a = slot, "pid"_a = number_or_none(pid != 0, pid), "arena"_a = block >> 32,
              "block"_a = static_cast<BlockNumber>(block), "messages"_a = std::popcount(live),
              "age"_a = seconds_since(static_cast<std::uint32_t>(group.mark.load()))));
        });
  }
  return in_flight;
}

py::dict describe(const QueueSummary& queue) {
  const std::string label = text_of(queue.label);
  const char* const state = queue.damaged     ? "damaged"
                            : queue.is_cache  ? "cache"
                            : queue.shut_down ? "shut down"
                                              : "open";
  return py::dict("label"_a = to_str(std::as_bytes(std::span(label)), "replace"),
                  "arena"_a = queue.arena, "block"_a = queue.block, "state"_a = state,
                  "messages"_a = queue.messages, "limit"_a = queue.limit, "put"_a = queue.put,
                  "bytes"_a = queue.bytes, "max_bytes"_a = queue.max_bytes,
                  "processes"_a = queue.processes, "rings"_a = queue.rings,
                  "readers"_a = number_or_none(queue.is_broadcast(), queue.readers),
                  "waits_to_get"_a = queue.getters, "waits_to_put"_a = queue.putters);
}

py::list queues_of(Observed& session) {
  py::list queues;
  Message request = session.request(MessageKind::next_queue);
  while (const auto answer = session.ask(request)) {
    queues.append(describe(answer->queue));
    request.arena = answer->queue.arena;
    request.number = std::uint64_t{answer->queue.block} + 1;
  }
  return queues;
}

py::object observe(const std::string& id) {
  std::optional<Observed> session = reach(id);
  if (!session) return py::none();
  const SessionMemory& memory = *session->memory;
  const auto answer = session->ask(session->request(MessageKind::statistics));
  const Statistics all = answer ? answer->statistics : Statistics{};
  return py::dict("session"_a = id, "bytes_live"_a = all.bytes_live,
                  "bytes_reserved"_a = all.bytes_reserved, "blocks"_a = all.blocks,
                  "manager_starts"_a = memory.header().manager_starts.load(),
                  "processes"_a = processes_of(memory), "arenas"_a = arenas_of(*session),
                  "in_flight"_a = in_flight_of(memory), "names"_a = names_of(memory),
                  "queues"_a = queues_of(*session));
}

// Without arenas of this process.
std::uint64_t collect_session(const std::string& id, double older_than) {
  std::optional<Observed> session = reach(id);
  if (!session) return 0;
  Message request = session->request(MessageKind::collect);
  request.number = in_milliseconds(older_than);
  const auto answer = session->ask(request);
  return answer ? answer->number : 0;
}

}  // namespace

void add_observer(py::module_& module) {
  module.def("observe", &observe);
  module.def("collect_session", &collect_session);
}

}  // namespace shmtensor::python
