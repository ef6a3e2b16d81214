#include "bindings/transfer/send_scope.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/session/session_access.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/initializer.hpp"
#include "bindings/support/simple_buffer.hpp"
#include "os/write_parts.hpp"

namespace shmtensor::python {
namespace {

/// A ticket in the bytes that `tickets` returns.
struct TicketBytes {
  std::uint32_t arena;
  std::uint32_t strategy;
  std::uint32_t block;
  std::uint32_t generation;
  std::uint32_t sender;
  std::uint32_t bit;
  std::uint32_t group;
  std::uint32_t serial;
};
static_assert(sizeof(TicketBytes) == 32);

NamedTicket named_by(const TicketBytes& record) noexcept {
  return {.arena = record.arena,
          .block = record.block,
          .generation = record.generation,
          .ticket = {static_cast<SlotNumber>(record.sender), static_cast<std::uint8_t>(record.bit),
                     record.group, record.serial}};
}

// May be repeated: a cancelled ticket stays cancelled.
void cancel_tickets(const py::bytes& tickets) {
  const std::string_view text = tickets;
  Session& session = home();
  const GilRelease release;  // an arena may have to be fetched from the manager
  TicketBytes record{};
  for (std::size_t at = 0; at + sizeof record <= text.size(); at += sizeof record) {
    std::memcpy(&record, text.data() + at, sizeof record);
    session.cancel(named_by(record), static_cast<Strategy>(record.strategy));
  }
}

// Writes all of header and content to a pipe or socket, as multiprocessing's connections do. No
// signal handler of Python's runs between the last byte and the return: an exception means that the
// message was not written whole. Throws the errors of `os.write`.
void write_message(int fd, const py::object& header, const py::object& content) {
  const SimpleBuffer head(header.ptr());
  const SimpleBuffer body(content.ptr());
  WriteParts parts(head.bytes(), body.bytes());
  for (;;) {
    int error = 0;
    {
      const GilRelease release;
      error = parts.write_to(fd);
    }
    if (error != 0 && error != EINTR) {
      errno = error;
      PyErr_SetFromErrno(PyExc_OSError);
      throw py::error_already_set();
    }
    if (parts.done()) return;
    // A signal that comes after a part was written ends the call with that part, without an error.
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

std::unique_ptr<SendScope> make_scope(bool persistent, bool arguments, bool borrowed) {
  const TicketOf of = persistent  ? TicketOf::name
                      : arguments ? TicketOf::arguments
                                  : TicketOf::message;
  return std::make_unique<SendScope>(of, borrowed);
}

}  // namespace

SendScope::~SendScope() {
  close();
  discard();
}

SendScope* SendScope::present() noexcept {
  SendScope* const last = find([](const SendScope&) { return true; });
  return last != nullptr && last->is_ours() ? last : nullptr;
}

bool SendScope::has_one_reader() noexcept {
  const SendScope* const scope = present();
  return scope != nullptr && scope->of_ != TicketOf::name && !scope->borrowed_ &&
         scope->queued_ == nullptr;
}

TicketSource SendScope::issue(Arena& arena, BlockNumber block, Generation generation) {
  SendScope* const scope = present();
  if (scope == nullptr) return arena.send(block);
  if (scope->borrowed_) return NoTicket();
  if (scope->queued_ != nullptr && scope->queued_->session() == arena.memory().id()) {
    return scope->queued_->add(arena, block, generation);
  }
  // A ticket that is not noted would never be cancelled, so what may throw comes before it.
  std::vector<Sent>& sent = scope->sent_;
  if (sent.size() == sent.capacity()) sent.reserve(2 * sent.size() + 1);
  const Ticket ticket = arena.send(block, scope->of_);
  sent.push_back({PinnedArena(arena), block, generation, ticket});
  return ticket;
}

void SendScope::write(int fd, const py::object& header, const py::object& content) {
  try {
    write_message(fd, header, content);
  } catch (...) {
    discard();
    throw;
  }
  delivered();
}

void SendScope::delivered() noexcept {
  // A forked child must not change the arenas' pins.
  if (!is_ours()) {
    for (Sent& sent : sent_) sent.arena.forget();
  }
  sent_.clear();
}

void SendScope::discard() noexcept {
  if (is_ours()) {
    for (const Sent& sent : sent_) {
      sent.arena->cancel_send(sent.block, sent.generation, sent.ticket);
    }
  }
  delivered();
}

void SendScope::keep(std::uint32_t mark) noexcept {
  if (!is_ours()) return;
  for (const Sent& sent : sent_) {
    sent.arena->memory().transit(sent.ticket.sender).keep(sent.ticket, mark);
  }
}

std::uint64_t SendScope::nbytes() const {
  std::map<std::pair<ArenaNumber, BlockNumber>, std::uint64_t> sizes;
  for (const Sent& sent : sent_) {
    const Segment& segment = sent.arena->segment();
    sizes[{segment.number(), sent.block}] = segment.record(sent.block).size.load();
  }
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& block) { return sum + block.second; });
}

bool SendScope::has_external() const noexcept {
  return std::ranges::any_of(sent_, [](const Sent& sent) {
    return sent.arena->segment().strategy() == Strategy::external;
  });
}

py::bytes SendScope::tickets() const {
  std::string text;
  for (const Sent& sent : sent_) {
    const Segment& segment = sent.arena->segment();
    const TicketBytes record{.arena = segment.number(),
                             .strategy = static_cast<std::uint32_t>(segment.strategy()),
                             .block = sent.block,
                             .generation = sent.generation,
                             .sender = sent.ticket.sender,
                             .bit = sent.ticket.bit,
                             .group = sent.ticket.group,
                             .serial = sent.ticket.serial};
    text.append(reinterpret_cast<const char*>(&record), sizeof record);
  }
  return text;
}

void add_send_scope(py::module_& module) {
  SendScope::prepare();
  py::class_<SendScope>(module, "SendScope")
      .def("__init__", initializer(&make_scope), kInitializer, py::kw_only(),
           py::arg("persistent") = false, py::arg("arguments") = false, py::arg("borrowed") = false)
      .def(
          "__enter__",
          [](SendScope& self) -> SendScope& {
            self.open();
            return self;
          },
          py::return_value_policy::reference)
      .def("__exit__",
           [](SendScope& self, const py::object& type, const py::object&, const py::object&) {
             self.close();
             if (!type.is_none()) self.discard();
           })
      .def("write", &SendScope::write, py::arg("fd"), py::arg("header"), py::arg("content"))
      .def("delivered", &SendScope::delivered)
      .def("discard", &SendScope::discard)
      .def("keep", &SendScope::keep)
      .def("nbytes", &SendScope::nbytes)
      .def("has_external", &SendScope::has_external)
      .def("tickets", &SendScope::tickets);
  module.def("cancel_tickets", &cancel_tickets);
  module.def("message_has_one_reader", &SendScope::has_one_reader);
}

}  // namespace shmtensor::python
