#include "bindings/transfer/message_scope.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/initializer.hpp"
#include "bindings/transfer/write_message.hpp"
#include "os/fork_mark.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

// How many blocks are on their way from another processor's cache at the same time.
constexpr std::size_t kTogether = 32;

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

MessageScope::Purpose to_purpose(std::string_view name) {
  using enum MessageScope::Purpose;
  if (name == "transient") return transient;
  if (name == "persistent") return persistent;
  if (name == "borrowed") return borrowed;
  throw py::value_error("unknown purpose '" + std::string(name) +
                        "'; there are 'transient', 'persistent' and 'borrowed'");
}

NamedTicket named_by(const TicketBytes& record) noexcept {
  return {.arena = record.arena,
          .block = record.block,
          .generation = record.generation,
          .ticket = {static_cast<SlotNumber>(record.sender), static_cast<std::uint8_t>(record.bit),
                     record.group, record.serial}};
}

std::unique_ptr<MessageScope> make_scope(std::string_view purpose) {
  return std::make_unique<MessageScope>(to_purpose(purpose));
}

std::unique_ptr<MessageScope> make_for_pipe(std::shared_ptr<OutgoingPipe> pipe) {
  return std::make_unique<MessageScope>(MessageScope::Purpose::transient, std::move(pipe));
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

}  // namespace

MessageScope::MessageScope(Purpose purpose, std::shared_ptr<OutgoingPipe> pipe)
    : forks_(Runtime::get().forks()),
      purpose_(purpose),
      pipe_(std::move(pipe)),
      borrows_(purpose == Purpose::borrowed) {}

MessageScope::MessageScope(const SessionId& session) : MessageScope(Purpose::queued) {
  session_ = session;
}

MessageScope::MessageScope(const SessionId& session, std::span<const NamedTicket> records,
                           bool borrows)
    : MessageScope(Purpose::records) {
  session_ = session;
  records_ = records;
  borrows_ = borrows;
}

MessageScope::~MessageScope() {
  close();
  discard();
}

void MessageScope::open() {
  close();
  link_ = OpenScopes::add(this);
}

// Perhaps in another thread or context than the one that opened it, whose list keeps the link until
// it opens another scope.
void MessageScope::close() noexcept {
  if (link_ == nullptr) return;
  link_->store(nullptr);
  link_.reset();
}

MessageScope* MessageScope::sender() noexcept {
  MessageScope* found = nullptr;
  OpenScopes::present().find([&](MessageScope& scope) {
    if (scope.reads()) return false;
    if (scope.is_ours()) found = &scope;
    return true;
  });
  return found;
}

bool MessageScope::has_one_reader() noexcept {
  const MessageScope* const scope = sender();
  return scope != nullptr && scope->purpose_ == Purpose::transient;
}

// Also in a forked child that runs on inside its parent's scope: the tickets are not its own to
// consume.
bool MessageScope::borrows() noexcept {
  bool found = false;
  OpenScopes::present().find([&](const MessageScope& scope) {
    found = scope.borrows_;
    return scope.reads();
  });
  return found;
}

Ticket MessageScope::issue(Arena& arena, BlockNumber block, Generation generation) {
  MessageScope* scope = sender();
  if (scope == nullptr) return arena.send(block);
  if (scope->purpose_ == Purpose::queued && arena.memory().id() == scope->session_) {
    return {.sender = kInMessage, .group = scope->refer(arena, block, generation)};
  }
  // A ticket that is not noted would never be cancelled, so what may throw comes before it.
  std::vector<Sent>& sent = scope->sent_;
  if (sent.size() == sent.capacity()) sent.reserve(2 * sent.size() + 1);
  const std::uint32_t pipe = scope->pipe_ != nullptr ? scope->pipe_->number_for(arena.memory()) : 0;
  const Ticket ticket = arena.send(block, scope->purpose_ == Purpose::persistent, pipe);
  sent.push_back({PinnedArena(arena), block, generation, ticket});
  return ticket;
}

std::uint32_t MessageScope::refer(Arena& arena, BlockNumber block, Generation generation) {
  sent_.push_back({PinnedArena(arena), block, generation, Ticket{.sender = kInMessage}});
  LocalTable::Lock lock(arena.local(), block);
  lock.set_count(lock.count() + 1);  // the tensor that is sent has one
  return static_cast<std::uint32_t>(sent_.size() - 1);
}

bool MessageScope::is_ours() const noexcept {
  return forks_ == Runtime::get().forks() && !is_raw_copy();
}

void MessageScope::clear() noexcept {
  if (!is_ours()) {
    for (Sent& sent : sent_) sent.arena.forget();
  }
  sent_.clear();
}

void MessageScope::write(int fd, const py::object& header, const py::object& content) {
  try {
    write_message(fd, header, content);
  } catch (...) {
    discard();
    throw;
  }
  delivered();
}

bool MessageScope::needs_records_only() const noexcept {
  return std::ranges::all_of(sent_,
                             [](const Sent& sent) { return sent.ticket.sender == kInMessage; });
}

// A ticket of another session is in its handle, and needs no record.
void MessageScope::issue_into(std::span<TicketRecord* const> records) {
  for (std::size_t begin = 0; begin < sent_.size(); begin += kTogether) {
    const std::size_t end = std::min(begin + kTogether, sent_.size());
    const auto each = [&](auto&& step) {
      for (std::size_t i = begin; i < end; ++i) {
        if (sent_[i].ticket.sender == kInMessage) step(sent_[i], *records[i]);
      }
    };
    each([](const Sent& sent, TicketRecord&) { sent.arena->prefetch_send(sent.block); });
    each([](const Sent& sent, TicketRecord&) { sent.arena->prefetch_ticket(sent.block); });
    each([](Sent& sent, TicketRecord& record) {
      sent.ticket = sent.arena->send(sent.block, record);
      sent.arena->release(sent.block);
    });
  }
}

std::optional<Ticket> MessageScope::ticket_of(const Handle& handle) {
  const std::optional<Ticket> nothing;
  if (handle.ticket.sender != kInMessage) return borrows() ? nothing : handle.ticket;
  const MessageScope* found = nullptr;
  OpenScopes::present().find([&](const MessageScope& scope) {
    if (scope.purpose_ != Purpose::records || scope.session_ != handle.session ||
        handle.ticket.group >= scope.records_.size()) {
      return false;
    }
    found = &scope;
    return true;
  });
  if (found == nullptr) {
    throw StaleHandle(
        "cannot use a tensor's handle: it belongs to a message of a queue, and was taken out of it "
        "unread");
  }
  if (borrows() || !found->is_ours()) return nothing;  // a forked child's parent consumes it
  return found->records_[handle.ticket.group].ticket;
}

void MessageScope::delivered() noexcept { clear(); }

void MessageScope::discard() noexcept {
  if (is_ours()) {
    for (const Sent& sent : sent_) {
      if (sent.ticket.sender == kInMessage) {
        sent.arena->release(sent.block);
      } else {
        sent.arena->cancel_send(sent.block, sent.generation, sent.ticket);
      }
    }
  }
  clear();
}

void MessageScope::keep() noexcept {
  if (!is_ours()) return;
  for (const Sent& sent : sent_) {
    sent.arena->memory().transit(sent.ticket.sender).keep(sent.ticket);
  }
}

py::bytes MessageScope::tickets() const {
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

void add_message_scope(py::module_& module) {
  add_open_scopes();
  py::class_<MessageScope>(module, "MessageScope")
      .def("__init__", initializer(&make_for_pipe), kInitializer, py::arg("pipe"))
      .def("__init__", initializer(&make_scope), kInitializer, py::arg("purpose") = "transient")
      .def(
          "__enter__",
          [](MessageScope& self) -> MessageScope& {
            self.open();
            return self;
          },
          py::return_value_policy::reference)
      .def("__exit__",
           [](MessageScope& self, const py::object& type, const py::object&, const py::object&) {
             self.close();
             if (!type.is_none()) self.discard();
           })
      .def("write", &MessageScope::write, py::arg("fd"), py::arg("header"), py::arg("content"))
      .def("delivered", &MessageScope::delivered)
      .def("discard", &MessageScope::discard)
      .def("keep", &MessageScope::keep)
      .def("tickets", &MessageScope::tickets);
  module.def("cancel_tickets", &cancel_tickets);
  module.def("message_has_one_reader", &MessageScope::has_one_reader);
}

}  // namespace shmtensor::python
