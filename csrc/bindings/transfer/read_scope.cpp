#include "bindings/transfer/read_scope.hpp"

#include <cstddef>
#include <variant>

#include "base/error.hpp"
#include "bindings/support/initializer.hpp"

namespace shmtensor::python {

// A forked child that runs on inside its parent's scope does not consume the parent's tickets.
TicketSource ReadScope::ticket_of(const TensorReference& reference) {
  const ReadScope* scope = find([](const ReadScope&) { return true; });
  const bool shared = scope != nullptr && scope->shared_;
  const auto* const number = std::get_if<RecordNumber>(&reference.ticket);
  if (number == nullptr) return shared ? NoTicket() : reference.ticket;
  const auto record = static_cast<std::size_t>(*number);
  scope = find([&](const ReadScope& one) {
    return one.session_ == reference.session && record < one.records_.size();
  });
  if (scope == nullptr) {
    throw StaleHandle(
        "cannot use a tensor's handle: it belongs to a message of a queue, and was taken out of it "
        "unread");
  }
  if (shared || !scope->is_ours()) return NoTicket();
  return scope->records_[record].ticket;
}

void add_read_scope(py::module_& module) {
  ReadScope::prepare();
  py::class_<ReadScope>(module, "ReadScope")
      .def("__init__", initializer<ReadScope>(), kInitializer)
      .def(
          "__enter__",
          [](ReadScope& self) -> ReadScope& {
            self.open();
            return self;
          },
          py::return_value_policy::reference)
      .def("__exit__", [](ReadScope& self, const py::object&, const py::object&,
                          const py::object&) { self.close(); });
}

}  // namespace shmtensor::python
