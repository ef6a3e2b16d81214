#include "bindings/transfer/read_scope.hpp"

#include "base/error.hpp"
#include "bindings/support/initializer.hpp"

namespace shmtensor::python {

// A forked child that runs on inside its parent's scope does not consume the parent's tickets.
std::optional<Ticket> ReadScope::ticket_of(const Handle& handle) {
  const ReadScope* const present = find([](const ReadScope&) { return true; });
  const bool is_left = present != nullptr && present->shared_;
  if (handle.ticket.sender != kInMessage) {
    return is_left ? std::nullopt : std::optional(handle.ticket);
  }
  const ReadScope* const named = find([&](const ReadScope& scope) {
    return scope.session_ == handle.session && handle.ticket.group < scope.records_.size();
  });
  if (named == nullptr) {
    throw StaleHandle(
        "cannot use a tensor's handle: it belongs to a message of a queue, and was taken out of it "
        "unread");
  }
  if (is_left || !named->is_ours()) return std::nullopt;
  return named->records_[handle.ticket.group].ticket;
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
