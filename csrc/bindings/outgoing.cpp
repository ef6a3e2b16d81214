#include "bindings/outgoing.hpp"

#include <memory>

#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

thread_local Outgoing* t_open = nullptr;

}  // namespace

Outgoing::Outgoing() : forks_(Runtime::get().forks()) {}

void Outgoing::open() noexcept {
  outer_ = t_open;
  t_open = this;
}

void Outgoing::close() noexcept { t_open = outer_; }

void Outgoing::delivered() noexcept {
  if (forks_ == Runtime::get().forks()) {
    for (const Sent& sent : sent_) sent.arena->unpin();
  }
  sent_.clear();
}

void Outgoing::discard() noexcept {
  if (forks_ == Runtime::get().forks()) {
    for (const Sent& sent : sent_) {
      sent.arena->unsend(sent.block, sent.generation, sent.ticket);
      sent.arena->unpin();
    }
  }
  sent_.clear();
}

void Outgoing::record(Arena& arena, BlockNumber block, Generation generation,
                      const Ticket& ticket) {
  if (t_open == nullptr) return;
  t_open->sent_.push_back({&arena, block, generation, ticket});
  arena.pin();
}

void add_outgoing(py::module_& module) {
  py::class_<Outgoing>(module, "Outgoing")
      .def(py::init<>())
      .def(
          "__enter__",
          [](Outgoing& self) -> Outgoing& {
            self.open();
            return self;
          },
          py::return_value_policy::reference)
      .def("__exit__",
           [](Outgoing& self, const py::object& type, const py::object&, const py::object&) {
             self.close();
             if (!type.is_none()) self.discard();
           })
      .def("delivered", &Outgoing::delivered)
      .def("discard", &Outgoing::discard);
}

}  // namespace shmtensor::python
