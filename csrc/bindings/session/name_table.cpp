#include "bindings/session/name_table.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/session/session_access.hpp"
#include "os/clock.hpp"

namespace shmtensor::python {
namespace {

const char* stage_name(NameStage stage) noexcept {
  switch (stage) {
    case NameStage::busy:
      return "busy";
    case NameStage::published:
      return "published";
    case NameStage::replacing:
      return "replacing";
    default:
      return "free";
  }
}

// `keep` as `publish` takes it; None if the object cannot be kept. `left`: of a time, the seconds
// until it is over, if that is running.
void describe_object(py::dict& one, const NameRecord& record, NameState state,
                     std::uint64_t empty_since) {
  const bool published = state.is_published();
  const std::uint64_t time = published ? record.keep[state.place()].load() : 0;
  one["bytes"] = published ? record.bytes[state.place()].load() : 0;
  one["keep"] = py::bool_(time == NameRecord::kUntilDropped);
  one["left"] = py::none();
  if (time == NameRecord::kCannotBeKept) one["keep"] = py::none();
  if (time == 0 || time >= NameRecord::kCannotBeKept) return;
  one["keep"] = static_cast<double>(time) / 1000;
  if (empty_since == 0) return;
  const std::uint64_t idle = coarse_milliseconds() - empty_since;
  one["left"] = static_cast<double>(time - std::min(time, idle)) / 1000;
}

py::object name_number(const std::string& name, bool make) {
  if (name.empty() || name.size() > NameRecord::kMaxName) {
    const py::object beginning = py::str(name)[py::slice(0, 40, 1)];
    throw py::value_error("a name has 1 to " + std::to_string(NameRecord::kMaxName) +
                          " bytes in UTF-8, not the " + std::to_string(name.size()) +
                          " that begin with " + py::repr(beginning).cast<std::string>());
  }
  const SessionMemory& memory = home().memory();
  const std::optional<std::uint32_t> number = memory.names().find(name, memory.header().key, make);
  return number ? py::object(py::int_(*number)) : py::none();
}

// (state, stage, published handle or None, whether a handle is left that is not published, whether
// the process that changed the state last is alive)
py::tuple name_read(std::uint32_t number) {
  const SessionMemory& memory = home().memory();
  NameTable& table = memory.names();
  NameRecord& record = table.records[number % NameTable::kNames];
  for (;;) {
    const NameState state{record.state.load()};
    const auto handle = table.read_handle(number, state.place());
    const auto other = table.read_handle(number, state.place() ^ 1);
    if (record.state.load() != state.bits) continue;
    const SlotRecord& slot = memory.slot(state.slot());
    const bool alive =
        slot.incarnation.load() == state.incarnation() && memory.is_alive(state.slot());
    const bool published = state.is_published();
    const bool left = is_handle(other) || (!published && is_handle(handle));
    return py::make_tuple(state.bits, stage_name(state.stage()),
                          published ? py::object(bytes_of(handle)) : py::none(), left, alive);
  }
}

}  // namespace

py::bytes bytes_of(const NameHandle& handle) {
  return {reinterpret_cast<const char*>(handle.data()), handle.size()};
}

py::list names_of(const SessionMemory& memory) {
  py::list names;
  NameTable& table = memory.names();
  for (std::uint32_t number = 0; number < NameTable::kNames; ++number) {
    const NameState state{table.records[number].state.load()};
    if (state.stage() == NameStage::free) continue;
    py::dict one;
    one["name"] = table.name(number);
    one["stage"] = stage_name(state.stage());
    const SlotRecord& record = memory.slot(state.slot());
    const bool there =
        is_in(record.status.load()) && record.incarnation.load() == state.incarnation();
    one["pid"] = there ? py::object(py::int_(record.pid.load())) : py::none();
    const std::uint64_t since = table.records[number].since.load();
    one["age"] = since != 0 ? seconds_since(static_cast<std::uint32_t>(since)) : 0;
    describe_object(one, table.records[number], state, memory.header().empty_since.load());
    names.append(one);
  }
  return names;
}

void add_name_table(py::module_& module) {
  module.def("name_number", &name_number);
  module.def("name_read", &name_read);
  module.def("names", [] { return names_of(home().memory()); });
}

}  // namespace shmtensor::python
