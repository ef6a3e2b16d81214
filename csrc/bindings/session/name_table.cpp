#include "bindings/session/name_table.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>

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
    default:
      return "free";
  }
}

std::optional<NameStage> stage_of(const std::string& name) {
  for (const NameStage stage : {NameStage::free, NameStage::busy, NameStage::published}) {
    if (name == stage_name(stage)) return stage;
  }
  return std::nullopt;
}

py::object name_number(const std::string& name, bool make) {
  if (name.empty() || name.size() > NameRecord::kMaxName) {
    throw py::value_error("a name has 1 to " + std::to_string(NameRecord::kMaxName) +
                          " bytes in UTF-8: '" + name + "'");
  }
  const SessionMemory& memory = home().memory();
  NameTable& names = *with_descriptor(memory.id(), [&] { return &memory.names(); });
  const std::optional<std::uint32_t> number = names.find(name, memory.header().key, make);
  return number ? py::object(py::int_(*number)) : py::none();
}

// (state, stage, handles, whether the process that changed it last is alive)
py::tuple name_read(std::uint32_t number) {
  const SessionMemory& memory = home().memory();
  NameTable& table = memory.names();
  NameRecord& record = table.records[number % NameTable::kNames];
  for (;;) {
    const NameState state{record.state.load()};
    const auto handles = table.read_handles(number);
    if (record.state.load() != state.bits) continue;
    const SlotRecord& slot = memory.slot(state.slot());
    const bool alive =
        slot.incarnation.load() == state.incarnation() && memory.is_alive(state.slot());
    return py::make_tuple(state.bits, stage_name(state.stage()),
                          py::bytes(reinterpret_cast<const char*>(handles.data()), handles.size()),
                          alive);
  }
}

py::object name_change(std::uint32_t number, std::uint64_t seen, const std::string& stage) {
  const std::optional<NameStage> next = stage_of(stage);
  if (!next) throw py::value_error("no such stage: " + stage);
  Session& session = home();
  const SessionMemory& memory = session.memory();
  const std::uint32_t incarnation = memory.slot(session.slot()).incarnation.load();
  NameTable& table = memory.names();
  if (*next == NameStage::published) {
    table.records[number % NameTable::kNames].since.store(coarse_seconds());
  }
  const NameState before{seen};
  const auto after = table.change(number, before, before.next(*next, session.slot(), incarnation));
  return after ? py::object(py::int_(after->bits)) : py::none();
}

void name_write(std::uint32_t number, const py::bytes& handles) {
  const std::string_view text = handles;
  if (text.size() > NameRecord::kHandles) throw py::value_error("these handles are too long");
  home().memory().names().write_handles(number, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

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
    names.append(one);
  }
  return names;
}

void add_name_table(py::module_& module) {
  module.def("name_number", &name_number);
  module.def("name_read", &name_read);
  module.def("name_change", &name_change);
  module.def("name_write", &name_write);
}

}  // namespace shmtensor::python
