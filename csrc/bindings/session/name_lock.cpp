#include "bindings/session/name_lock.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/error.hpp"
#include "base/report.hpp"
#include "bindings/session/name_table.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/support/initializer.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"

namespace shmtensor::python {
namespace {

std::uint64_t time_of(double seconds) noexcept {
  if (seconds == std::numeric_limits<double>::infinity()) return NameRecord::kUntilDropped;
  return seconds > 0 ? std::max<std::uint64_t>(in_milliseconds(seconds), 1) : 0;
}

// Before the first object is kept: a manager that finds no mark reads no name.
void note_keeping(std::uint64_t time) {
  if (time != 0 && time != NameRecord::kCannotBeKept) home().memory().header().keeps_names.store(1);
}

}  // namespace

NameLock::~NameLock() {
  try {
    release();
  } catch (const std::exception& error) {
    report(error.what());
  }
}

bool NameLock::held() const noexcept { return owner_ && owner_->is_this_process(); }

bool NameLock::acquire(std::uint64_t seen, bool keep) {
  const NameState state{seen};
  owner_.reset();
  const Origin here;
  const bool stays = keep && state.is_published();
  if (!change(state, stays ? NameStage::replacing : NameStage::busy, state.place())) return false;
  owner_ = here;
  return true;
}

py::list NameLock::unpublished() const {
  require_held();
  py::list found;
  for (std::uint32_t place = 0; place < 2; ++place) {
    if (state_.is_published() && place == state_.place()) continue;
    const NameHandle handle = home().memory().names().read_handle(number_, place);
    if (is_handle(handle)) found.append(py::make_tuple(place, bytes_of(handle)));
  }
  return found;
}

void NameLock::erase(std::uint32_t place) {
  require_held();
  if (state_.is_published() && place == state_.place()) {
    throw py::value_error("this handle is published");
  }
  SHMTENSOR_FAULT_POINT("name.before_erase");
  home().memory().names().write_handle(number_, place, NameHandle{});
}

void NameLock::write(const py::bytes& bytes, std::uint64_t size, double seconds, bool external) {
  const std::string_view text = bytes;
  NameHandle handle{};
  if (text.size() > handle.size()) throw py::value_error("this handle is too long");
  std::memcpy(handle.data(), text.data(), text.size());
  require_held();
  SHMTENSOR_FAULT_POINT("name.before_handle");
  const std::uint32_t place = state_.place() ^ 1;
  const std::uint64_t time = external ? NameRecord::kCannotBeKept : time_of(seconds);
  note_keeping(time);
  record().bytes[place].store(size);
  record().keep[place].store(time);
  home().memory().names().write_handle(number_, place, handle);
}

void NameLock::publish() {
  SHMTENSOR_FAULT_POINT("name.before_publish");
  change_held(NameStage::replacing, state_.place() ^ 1);
  SHMTENSOR_FAULT_POINT("name.published");
}

void NameLock::keep(double seconds) {
  require_held();
  Atomic<std::uint64_t>& kept = record().keep[state_.place()];
  if (!state_.is_published() || kept.load() == NameRecord::kCannotBeKept) {
    throw py::value_error("this object cannot be kept");
  }
  note_keeping(time_of(seconds));
  kept.store(time_of(seconds));
}

void NameLock::release() {
  if (!held()) return;
  SHMTENSOR_FAULT_POINT("name.before_release");
  const bool published = state_.is_published();
  change_held(published ? NameStage::published : NameStage::free, state_.place());
  owner_.reset();
}

void NameLock::change_held(NameStage stage, std::uint32_t place) {
  require_held();
  if (!change(state_, stage, place)) {
    owner_.reset();
    throw SessionError("lost the lock on a name: the manager considered this process dead");
  }
}

NameRecord& NameLock::record() const {
  return home().memory().names().records[number_ % NameTable::kNames];
}

void NameLock::require_held() const {
  if (held()) return;
  throw SessionError(
      "cannot change a name: this process does not hold its lock. A child that a builder forks "
      "must end by os._exit; its parent publishes the object");
}

bool NameLock::change(NameState seen, NameStage stage, std::uint32_t place) {
  Session& session = home();
  const SessionMemory& memory = session.memory();
  const std::uint32_t incarnation = memory.slot(session.slot()).incarnation.load();
  NameTable& table = memory.names();
  if (stage == NameStage::replacing && place != seen.place()) {
    record().since.store(coarse_seconds());
  }
  const auto next =
      table.change(number_, seen, seen.next(stage, place, session.slot(), incarnation));
  if (next) state_ = *next;
  return next.has_value();
}

void add_name_lock(py::module_& module) {
  py::class_<NameLock>(module, "NameLock")
      .def("__init__", initializer<NameLock, std::uint32_t>(), kInitializer)
      .def(
          "__enter__", [](NameLock& self) -> NameLock& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](NameLock& self, const py::args&) { self.release(); })
      .def_property_readonly("number", &NameLock::number)
      .def_property_readonly("held", &NameLock::held)
      .def("acquire", &NameLock::acquire)
      .def("unpublished", &NameLock::unpublished)
      .def("erase", &NameLock::erase)
      .def("write", &NameLock::write)
      .def("keep", &NameLock::keep)
      .def_property_readonly("mark", &NameLock::mark)
      .def("publish", &NameLock::publish);
}

}  // namespace shmtensor::python
