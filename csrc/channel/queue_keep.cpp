// The messages that consumers of a queue keep until they have completed them.
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "channel/channel_call.hpp"
#include "channel/hold_message.hpp"
#include "channel/queue.hpp"
#include "os/fork_mark.hpp"
#include "os/thread_number.hpp"

namespace shmtensor {

// With the lock of the head. The message is counted as taken afterwards: if this process is killed
// before, the repair finds the record and counts it. The entry does not name the ticket any more
// when it is counted, because the ticket that the next entry names is cancelled for a dead
// producer.
bool Queue::keep(MessageEntry& entry, const TakenFrom& from, std::uint32_t number,
                 std::uint64_t position, Incoming& message) {
  if (from.named) {
    message.block = hold_message(session_, from.arena, *from.named);
    if (!message.block) return false;
  }
  MessageEntry& to = kept_.message(number);
  to.ticket.clear();
  to.kind.store(message.kind);
  to.size.store(static_cast<std::uint16_t>(message.size));
  to.strategy.store(entry.strategy.load());
  to.access.store(message.access);
  std::memcpy(to.content.data(), message.content.data(), message.size);
  if (from.named) to.ticket.write(*from.named);
  kept_.record(number).position.store(position);
  kept_.own(number, session_.slot());
  (*received_)[number].store(thread_number());
  entry.ticket.clear();
  message.kept = number;
  return true;
}

// With the lock of the head. Returns nothing if the record is damaged; its message is dropped then.
std::optional<Attempt> Queue::take_returned(std::uint32_t number, Incoming& message,
                                            ChannelCall& call) {
  const std::optional<TakenFrom> from = read(kept_.message(number), message, call);
  if (!from) return Attempt::unmapped;
  if (from->named) {
    const NamedTicket& named = *from->named;
    message.block = hold_message(session_, from->arena, named);
    if (!message.block) {
      const bool is_gone = call.arena_is_gone(named.arena);
      if (is_gone) session_.memory().claim(named);
      free_record(number);
      if (is_gone) throw_lost(named.arena);
      return std::nullopt;
    }
  }
  kept_.own(number, session_.slot());
  (*received_)[number].store(thread_number());
  message.kept = number;
  return Attempt::done;
}

template <typename Visit>
void Queue::for_each_received_here(Visit&& visit) const {
  const std::uint32_t thread = thread_number();
  for (std::uint32_t i = 0; i < kept_.used().size(); ++i) {
    if ((*received_)[i].load() == thread) visit(i);
  }
}

void Queue::complete_all() {
  session_.require_slot();
  for_each_received_here([this](std::uint32_t number) { complete(number); });
}

std::optional<std::uint32_t> Queue::first_kept_here() const {
  std::optional<std::uint32_t> first;
  for_each_received_here([&](std::uint32_t number) {
    const std::uint64_t position = kept_.record(number).position.load();
    if (!first || position < kept_.record(*first).position.load()) first = number;
  });
  return first;
}

// The ticket is cancelled first: if this process is killed then, the manager frees the record, and
// the message is not received again. Until then, what the message refers to may be needed. It is
// released here, because the manager may be late, and the producer fills the memory meanwhile.
void Queue::complete(std::uint32_t number) {
  const std::uint32_t thread = (*received_)[number].exchange(0);
  if (thread == 0) return;  // it was returned when another thread closed this object
  const MessageEntry& message = kept_.message(number);
  HeldBlock contents;
  if (const std::optional<NamedTicket> named = message.ticket.read()) {
    try {
      contents = hold_contents(session_, *named);
      session_.cancel(*named, static_cast<Strategy>(message.strategy.load()));
    } catch (...) {
      (*received_)[number].store(thread);
      throw;
    }
  }
  if (contents) cancel_contents(session_, contents);
  free_record(number);
}

// If all records were in use, a consumer may have found none free before.
void Queue::free_record(std::uint32_t number) noexcept {
  kept_.record(number).owner.store(0);
  wake_joiners();
  const bool was_awaited = kept_.used().size() == KeptMessages::kRecords && header_.waiting() != 0;
  if (was_awaited || is_shut_down()) wake_everyone(QueueEvent::message);
}

void Queue::return_one(std::uint32_t number) noexcept {
  if (is_raw_copy() || (*received_)[number].exchange(0) == 0) return;
  kept_.record(number).owner.store(KeptRecord::kReturned);
  wake_everyone(QueueEvent::message);
}

void Queue::return_all() noexcept {
  if (kept_) for_each_received_here([this](std::uint32_t number) { return_one(number); });
}

// A record of another thread may have been completed meanwhile.
void Queue::return_of_all_threads() noexcept {
  for (std::uint32_t i = 0; i < kept_.used().size(); ++i) return_one(i);
}

// The parent's messages are not this process's.
void Queue::enter_child() noexcept {
  for (Atomic<std::uint32_t>& one : *received_) one.store(0);
}

}  // namespace shmtensor
