#include "bindings/session/observer.hpp"

#include <optional>
#include <string>

#include "bindings/session/name_table.hpp"
#include "bindings/session/session_access.hpp"
#include "session/observer.hpp"
#include "session/session_name.hpp"

namespace shmtensor::python {
namespace {

py::object text_of_label(const QueueLabel& label) {
  const std::string text = text_of(label);
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

py::list queues_of(Observer& observer) {
  py::list queues;
  for (const QueueSummary& queue : observer.queues()) {
    py::dict one;
    one["label"] = text_of_label(queue.label);
    one["arena"] = queue.arena;
    one["block"] = queue.block;
    one["state"] = queue.damaged ? "damaged" : queue.shut_down ? "shut down" : "open";
    one["messages"] = queue.messages;
    one["limit"] = queue.limit;
    one["put"] = queue.put;
    one["processes"] = queue.processes;
    one["rings"] = queue.rings;
    one["readers"] = queue.is_broadcast() ? py::object(py::int_(queue.readers)) : py::none();
    one["waits_to_get"] = queue.getters;
    one["waits_to_put"] = queue.putters;
    queues.append(one);
  }
  return queues;
}

py::object observe(const std::string& id) {
  std::optional<Observer> observer = Observer::open(session_named(id));
  if (!observer) return py::none();
  const Statistics all = observer->statistics();
  py::dict result;
  result["session"] = id;
  result["bytes_live"] = all.bytes_live;
  result["bytes_reserved"] = all.bytes_reserved;
  result["blocks"] = all.blocks;
  result["manager_starts"] = observer->memory().header().manager_starts.load();
  py::list processes;
  for (const Observer::Process& process : observer->processes()) {
    py::dict one;
    one["slot"] = process.slot;
    one["pid"] = process.pid;
    processes.append(one);
  }
  result["processes"] = processes;
  py::list arenas;
  for (const Observer::ArenaSummary& arena : observer->arenas()) {
    py::dict one;
    one["arena"] = arena.number;
    one["owner"] = arena.owner != kNoSlot ? py::object(py::int_(arena.owner)) : py::none();
    one["strategy"] = name_of(arena.strategy);
    one["blocks"] = arena.counts.blocks;
    one["bytes_live"] = arena.counts.bytes_live;
    one["bytes_reserved"] = arena.counts.bytes_reserved;
    arenas.append(one);
  }
  result["arenas"] = arenas;
  py::list in_flight;
  for (const Observer::InFlight& message : observer->in_flight()) {
    py::dict one;
    one["sender"] = message.sender;
    one["pid"] = message.pid != 0 ? py::object(py::int_(message.pid)) : py::none();
    one["arena"] = message.arena;
    one["block"] = message.block;
    one["messages"] = message.messages;
    one["age"] = message.age;
    in_flight.append(one);
  }
  result["in_flight"] = in_flight;
  result["names"] = names_of(observer->memory());
  result["queues"] = queues_of(*observer);
  return result;
}

std::uint64_t collect_session(const std::string& id, double older_than) {
  std::optional<Observer> observer = Observer::open(session_named(id));
  return observer ? observer->collect(in_milliseconds(older_than)) : 0;
}

}  // namespace

void add_observer(py::module_& module) {
  module.def("observe", &observe);
  module.def("collect_session", &collect_session);
}

}  // namespace shmtensor::python
