#include "bindings/transfer/outgoing_pipe.hpp"

#include <memory>
#include <optional>

#include "bindings/support/gil.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

// Where the manager cannot be told now, as while it is stopped, the next ticket tries again.
void OutgoingPipe::watch(const SessionMemory& memory) noexcept {
  const GilRelease release;
  const std::shared_ptr<Session> session = Runtime::get().find(memory.id());
  const auto number = session ? session->watch_pipe(descriptor_) : std::nullopt;
  if (!number) return;
  number_.store(*number, std::memory_order_relaxed);
  watched_by_.store(manager_of(memory), std::memory_order_relaxed);
}

void add_outgoing_pipe(py::module_& module) {
  py::class_<OutgoingPipe, std::shared_ptr<OutgoingPipe>>(module, "OutgoingPipe")
      .def(py::init<int>(), py::arg("fd"));
}

}  // namespace shmtensor::python
