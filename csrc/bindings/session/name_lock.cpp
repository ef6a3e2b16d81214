#include "bindings/session/name_lock.hpp"

#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/report.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/support/initializer.hpp"
#include "os/clock.hpp"
#include "os/fork_mark.hpp"

namespace shmtensor::python {

NameLock::~NameLock() {
  try {
    release();
  } catch (const std::exception& error) {
    report(error.what());
  }
}

bool NameLock::held() const noexcept {
  return acquired_ && forks_ == Runtime::get().forks() && !is_raw_copy();
}

bool NameLock::acquire(std::uint64_t seen) {
  forks_ = Runtime::get().forks();
  acquired_ = change({seen}, NameStage::busy);
  return acquired_;
}

void NameLock::write(const py::bytes& handles) {
  const std::string_view text = handles;
  if (text.size() > NameRecord::kHandles) throw py::value_error("these handles are too long");
  require_held();
  home().memory().names().write_handles(number_,
                                        std::as_bytes(std::span(text.data(), text.size())));
}

void NameLock::release(NameStage stage) {
  require_held();
  const bool done = change(state_, stage);
  acquired_ = false;
  if (!done) {
    throw SessionError("lost the lock on a name: the manager considered this process dead");
  }
}

void NameLock::require_held() const {
  if (held()) return;
  throw SessionError(
      "cannot change a name: this process does not hold its lock. A child that a builder forks "
      "must end by os._exit; its parent publishes the object");
}

bool NameLock::change(NameState seen, NameStage stage) {
  Session& session = home();
  const SessionMemory& memory = session.memory();
  const std::uint32_t incarnation = memory.slot(session.slot()).incarnation.load();
  NameTable& table = memory.names();
  if (stage == NameStage::published) {
    table.records[number_ % NameTable::kNames].since.store(coarse_seconds());
  }
  const auto next = table.change(number_, seen, seen.next(stage, session.slot(), incarnation));
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
      .def("write", &NameLock::write)
      .def("publish", &NameLock::publish);
}

}  // namespace shmtensor::python
