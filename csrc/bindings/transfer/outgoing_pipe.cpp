#include "bindings/transfer/outgoing_pipe.hpp"

#include <memory>

#include "bindings/support/gil.hpp"
#include "bindings/support/initializer.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

namespace {

std::shared_ptr<OutgoingPipe> make_pipe(int descriptor) {
  return std::make_shared<OutgoingPipe>(descriptor);
}

}  // namespace

// If the manager cannot be notified now, because it is stopped or has just ended, the next ticket
// tries again.
void OutgoingPipe::watch(const SessionMemory& memory) noexcept {
  const GilRelease release;
  const std::shared_ptr<Session> session = Runtime::get().find(memory.id());
  if (session == nullptr) return;
  const auto [number, settled] = session->manager().watch_pipe(descriptor_);
  if (number != 0 || settled) number_.store(number, std::memory_order_relaxed);
  if (settled) watched_by_.store(manager_of(memory), std::memory_order_relaxed);
}

void add_outgoing_pipe(py::module_& module) {
  py::class_<OutgoingPipe, std::shared_ptr<OutgoingPipe>>(module, "OutgoingPipe")
      .def("__init__", initializer(&make_pipe), kInitializer, py::arg("fd"));
}

}  // namespace shmtensor::python
