#include "bindings/transfer/message_scope.hpp"

#include <array>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/transfer/write_message.hpp"
#include "os/fork_mark.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

thread_local Outgoing* t_open = nullptr;
thread_local int t_peeks = 0;
thread_local int t_after_events = 0;

// arena, strategy, block, generation, sender, bit, group, serial
using TicketWords = std::array<std::uint32_t, 8>;

}  // namespace

Outgoing::Outgoing(bool to_keep) : forks_(Runtime::get().forks()), to_keep_(to_keep) {}

Outgoing::~Outgoing() {
  if (t_open == this) close();
  discard();
}

Outgoing* Outgoing::current() noexcept {
  return t_open != nullptr && t_open->is_ours() ? t_open : nullptr;
}

bool Outgoing::is_ours() const noexcept {
  return forks_ == Runtime::get().forks() && !is_raw_copy();
}

bool Outgoing::keeps() noexcept {
  const Outgoing* message = current();
  return message != nullptr && message->to_keep_;
}

void Outgoing::keep() noexcept {
  if (!is_ours()) return;
  for (const Sent& sent : sent_) {
    sent.arena->memory().transit(sent.ticket.sender).keep(sent.ticket);
  }
}

py::bytes Outgoing::tickets() const {
  std::string text;
  for (const Sent& sent : sent_) {
    const Segment& segment = sent.arena->segment();
    const TicketWords words{segment.number(),   static_cast<std::uint32_t>(segment.strategy()),
                            sent.block,         sent.generation,
                            sent.ticket.sender, sent.ticket.bit,
                            sent.ticket.group,  sent.ticket.serial};
    text.append(reinterpret_cast<const char*>(words.data()), sizeof words);
  }
  return text;
}

// May be repeated with the same tickets: what is spent stays spent.
void spend_tickets(const py::bytes& tickets) {
  const std::string_view text = tickets;
  Session& session = home();
  for (std::size_t at = 0; at + sizeof(TicketWords) <= text.size(); at += sizeof(TicketWords)) {
    TicketWords words;
    std::memcpy(words.data(), text.data() + at, sizeof words);
    Arena* arena = nullptr;
    try {
      arena = session.attach(words[0], static_cast<Strategy>(words[1]));
    } catch (const StaleHandle&) {
      continue;  // with all its blocks
    }
    if (words[2] < arena->segment().capacity()) {
      arena->unsend(words[2], words[3],
                    {static_cast<SlotNumber>(words[4]), static_cast<std::uint8_t>(words[5]),
                     words[6], words[7]});
    }
    arena->unpin();
  }
}

void Outgoing::open() noexcept {
  outer_ = t_open;
  t_open = this;
}

void Outgoing::close() noexcept { t_open = outer_; }

void Outgoing::write(int fd, const py::object& header, const py::object& content,
                     const py::object& lock) {
  try {
    write_message(fd, header, content, lock);
  } catch (...) {
    discard();
    throw;
  }
  delivered();
}

void Outgoing::delivered() noexcept {
  if (is_ours()) {
    for (const Sent& sent : sent_) sent.arena->unpin();
  }
  sent_.clear();
}

void Outgoing::discard() noexcept {
  if (is_ours()) {
    for (const Sent& sent : sent_) {
      sent.arena->unsend(sent.block, sent.generation, sent.ticket);
      sent.arena->unpin();
    }
  }
  sent_.clear();
}

void Outgoing::record(Arena& arena, BlockNumber block, Generation generation,
                      const Ticket& ticket) {
  Outgoing* message = current();
  if (message == nullptr) return;
  message->sent_.push_back({&arena, block, generation, ticket});
  arena.pin();
}

void Peek::open() noexcept { ++t_peeks; }
void Peek::close() noexcept { --t_peeks; }
bool Peek::is_open() noexcept { return t_peeks > 0; }

AfterEvent::AfterEvent() noexcept { ++t_after_events; }
AfterEvent::~AfterEvent() { --t_after_events; }
bool AfterEvent::is_open() noexcept { return t_after_events > 0; }

void add_message_scope(py::module_& module) {
  py::class_<Outgoing>(module, "Outgoing")
      .def(py::init<bool>(), py::arg("to_keep") = false)
      .def("keep", &Outgoing::keep)
      .def("tickets", &Outgoing::tickets)
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
      .def("write", &Outgoing::write, py::arg("fd"), py::arg("header"), py::arg("content"),
           py::arg("lock") = py::none())
      .def("delivered", &Outgoing::delivered)
      .def("discard", &Outgoing::discard);
  module.def("spend_tickets", &spend_tickets);
  py::class_<Peek>(module, "Peek")
      .def(py::init<>())
      .def("__enter__", [](Peek& self) { self.open(); })
      .def("__exit__", [](Peek& self, const py::args&) { self.close(); });
}

}  // namespace shmtensor::python
