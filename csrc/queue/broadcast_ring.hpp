// A broadcast in the bytes of its block: its messages, and which of them all readers have passed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "queue/broadcast_layout.hpp"

namespace shmtensor {

/// Any process of the session can write to the memory, so all numbers in it may be wrong. The limit
/// is read once.
///
/// Processes: all members may be called simultaneously.
class BroadcastRing {
 public:
  /// Nothing if no broadcast can be in these bytes.
  [[nodiscard]] static std::optional<BroadcastRing> in(std::span<std::byte> bytes) noexcept;

  [[nodiscard]] BroadcastHeader& header() const noexcept { return *header_; }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
  /// The entry of a message, or of the one that took its place. The entry of the next message is
  /// the spare one.
  [[nodiscard]] MessageEntry& entry(std::uint64_t number) const noexcept {
    return entries_[number % BroadcastHeader::entries(limit_)];
  }
  /// Return true if the message has its entry. One that is read while this is true before and after
  /// was read whole.
  [[nodiscard]] bool has(std::uint64_t number) const noexcept {
    return header_->tail.count.load() - number <= limit_;
  }
  /// The first message that a reader can still take if so many were put.
  [[nodiscard]] std::uint64_t window(std::uint64_t tail) const noexcept {
    return std::max(tail - std::min(tail, limit_), header_->dropped.load());
  }
  /// Return true if the message is among those that a reader can still take.
  [[nodiscard]] bool in_window(std::uint64_t number) const noexcept {
    return has(number) && number >= header_->dropped.load();
  }
  /// The name of the ticket of a message, if it has its entry and carries a block.
  [[nodiscard]] std::optional<NamedTicket> ticket_of(std::uint64_t number) const noexcept {
    const std::optional<NamedTicket> named = entry(number).ticket.read();
    return has(number) ? named : std::nullopt;
  }
  /// The bytes of the messages from this one on, in the window, if so many were put.
  [[nodiscard]] std::uint64_t bytes_from(std::uint64_t number, std::uint64_t tail) const noexcept {
    if (number == tail) return 0;
    const std::uint64_t before = number == 0 ? 0 : entry(number - 1).bytes.load();
    const std::uint64_t put = header_->tail.bytes_of(tail);
    return put - std::min(put, before);
  }

  [[nodiscard]] std::span<ReaderRecord> readers() const noexcept {
    return std::span(header_->readers)
        .first(std::min(header_->used.load(), BroadcastHeader::kReaders));
  }
  /// Return true if no reader has still to read a message before this one, all of which were put. A
  /// reader that joins at the same time begins after them: it reads the count of messages after it
  /// has made its record known.
  [[nodiscard]] bool have_passed(std::uint64_t number) const noexcept {
    const auto is_newest = [&] { return number >= header_->tail.count.load(); };
    if (keeps_newest()) return !is_newest();
    return std::ranges::none_of(readers(), [&](const ReaderRecord& reader) {
      return reader.reads() && reader.next.load() < number && (!reader.skips() || is_newest());
    });
  }
  /// The first message for which writers wait; `otherwise` if that is a lower number.
  [[nodiscard]] std::uint64_t first_unread(std::uint64_t otherwise) const noexcept {
    std::uint64_t first = otherwise;
    for (const ReaderRecord& reader : readers()) {
      if (reader.reads() && !reader.skips()) first = std::min(first, reader.next.load());
    }
    return std::min(otherwise, std::max(first, header_->dropped.load()));
  }
  /// The first of so many messages that is still needed: also the newest, for which none waits.
  [[nodiscard]] std::uint64_t first_needed(std::uint64_t tail) const noexcept {
    const std::uint64_t first = first_unread(tail);
    const bool keeps =
        tail != 0 && first == tail &&
        (keeps_newest() || std::ranges::any_of(readers(), [&](const ReaderRecord& reader) {
           return reader.reads() && reader.skips() && reader.next.load() < tail;
         }));
    return keeps ? tail - 1 : first;
  }
  [[nodiscard]] bool has_skipping_reader() const noexcept {
    return std::ranges::any_of(readers(), &ReaderRecord::skips);
  }

  /// Return true if the newest message stays: it has readers that the ring does not know.
  [[nodiscard]] bool keeps_newest() const noexcept {
    return header_->on_full.load() == OnFull::keep_newest;
  }

 private:
  BroadcastRing(BroadcastHeader& header, MessageEntry* entries, std::uint64_t limit) noexcept
      : header_(&header), entries_(entries), limit_(limit) {}

  BroadcastHeader* header_;
  MessageEntry* entries_;
  std::uint64_t limit_;
};

}  // namespace shmtensor
