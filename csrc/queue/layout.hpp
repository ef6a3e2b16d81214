// The layout of a queue's shared memory. docs/design/queues.md draws it and proves its protocol.
//
// The first block of a queue has its locks, its counts, and a ring for a few messages. Each further
// ring is a block of its own, four times as large as the one before.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "arena/layout.hpp"
#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "os/mapping.hpp"
#include "queue/ring_sizes.hpp"
#include "queue/watch_flag.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kQueueMagic = 0x3165'7565'7571'7473;  // "stqueue1"

/// A message. It is up to 216 bytes, or one block with its ticket, or both.
struct MessageEntry {
  static constexpr std::size_t kContent = 216;

  TicketRecord ticket;
  Atomic<std::uint32_t> kind;     ///< for the layer above
  Atomic<std::uint16_t> size;     ///< of the content
  Atomic<std::uint8_t> strategy;  ///< of the arena of the ticket's block
  Atomic<Access> access;          ///< with which its reader maps the block
  std::array<std::byte, kContent> content;
  Atomic<std::uint64_t> bytes;  ///< of all messages up to this one, with their blocks
};
static_assert(sizeof(MessageEntry) == 256);

/// Where a ring is. A ring without a ticket is the one in the queue's first block.
struct RingRecord {
  TicketRecord ticket;
  Atomic<std::uint64_t> start;  ///< the count of messages that were put before its first one
  Atomic<std::uint64_t> bytes;  ///< of those messages
  Atomic<Strategy> strategy;    ///< of the arena
  std::array<std::byte, 212> padding;
};
static_assert(sizeof(RingRecord) == 256);

/// The end of the queue at which messages are put (tail) or taken (head). Only the process that has
/// the lock writes the other fields.
struct alignas(64) QueueEnd {
  Atomic<std::uint32_t> lock;      ///< OwnerLock
  Atomic<std::uint32_t> ring;      ///< number of the ring in use
  Atomic<std::uint64_t> count;     ///< messages that were put or taken
  Atomic<std::int32_t> processor;  ///< of the last attempt
  /// Of those messages, in word `count % 2`. The other one is written before the next count, which
  /// commits both.
  std::array<Atomic<std::uint64_t>, 2> bytes;

  /// The bytes of the first `number` messages, if so many or one more were counted.
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t number) const noexcept {
    return bytes[number % 2].load(std::memory_order_relaxed);
  }
  /// Of a later count if the end moves meanwhile.
  [[nodiscard]] std::uint64_t counted_bytes() const noexcept { return bytes_of(count.load()); }
  void advance(std::uint64_t number, std::uint64_t bytes_until) noexcept {
    bytes[number % 2].store(bytes_until, std::memory_order_relaxed);
    count.store(number);
  }
};

/// The name of a queue for people, in UTF-8, with zeros after it. Constant.
using QueueLabel = std::array<char, 40>;

[[nodiscard]] inline QueueLabel label_of(std::string_view text) noexcept {
  QueueLabel label{};
  std::copy_n(text.begin(), std::min(text.size(), label.size()), label.begin());
  return label;
}
[[nodiscard]] inline std::string text_of(const QueueLabel& label) {
  return {label.begin(), std::find(label.begin(), label.end(), '\0')};
}

enum class QueueStage : std::uint8_t {
  open = 0,
  shut_down = 1,  ///< no message can be put; the messages that are there can be taken
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one cache line for each writer
struct QueueHeader : RingSizes {
  Atomic<std::uint64_t> magic;
  Atomic<std::uint64_t> limit;          ///< messages that fit; 0: as many as memory permits
  Atomic<std::uint64_t> max_bytes;      ///< with so many in its messages it is full; 0: never
  Atomic<std::uint32_t> counts_copies;  ///< 1: a message has the bytes that were copied for it
  Atomic<std::uint32_t> redelivers;     ///< 1: KeptMessages follow the header
  Atomic<std::uint32_t> kept_used;      ///< no record of these from this one on was ever used
  QueueEnd tail;
  QueueEnd head;
  alignas(64) Atomic<std::uint32_t> getters;  ///< WaitFlag: until there is a message
  Atomic<std::uint32_t> message_watch;        ///< WatchFlag
  Atomic<std::uint32_t> message_pipe;         ///< number of the ReadyPipe; 0: never watched
  alignas(64) Atomic<std::uint32_t> putters;  ///< WaitFlag: until there is room
  Atomic<std::uint32_t> room_watch;           ///< WatchFlag
  Atomic<std::uint32_t> room_pipe;            ///< number of the ReadyPipe; 0: never watched
  alignas(64) Atomic<QueueStage> stage;
  Atomic<std::uint32_t> joiners;  ///< WaitFlag: until all messages are done
  Atomic<std::uint64_t> done;     ///< messages for which `task_done` was called
  QueueLabel label;
  alignas(64) std::array<RingRecord, kRings> rings;  ///< ring n is in record n % kRings
  std::array<MessageEntry, kFirstRing> first_ring;

  [[nodiscard]] RingRecord& ring(std::uint32_t number) noexcept { return rings[number % kRings]; }

  /// A WaitFlag.
  [[nodiscard]] Atomic<std::uint32_t>& waiters(QueueEvent event) noexcept {
    return event == QueueEvent::message ? getters : putters;
  }
  /// A WatchFlag.
  [[nodiscard]] Atomic<std::uint32_t>& watch(QueueEvent event) noexcept {
    return event == QueueEvent::message ? message_watch : room_watch;
  }
  /// The number of a ReadyPipe. Only the manager stores it.
  [[nodiscard]] Atomic<std::uint32_t>& pipe(QueueEvent event) noexcept {
    return event == QueueEvent::message ? message_pipe : room_pipe;
  }

  [[nodiscard]] bool is_shut_down() const noexcept { return stage.load() != QueueStage::open; }
  /// Messages in the rings.
  [[nodiscard]] std::uint64_t waiting() const noexcept {
    // The head is read first: the difference is never negative, and exact if no process acts.
    const std::uint64_t taken = head.count.load();
    return tail.count.load() - taken;
  }
  /// The bytes of the messages in the rings, with the blocks to which they refer.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept {
    const std::uint64_t taken = head.counted_bytes();
    const std::uint64_t put = tail.counted_bytes();
    return put - std::min(put, taken);
  }
  [[nodiscard]] bool is_full() const noexcept {
    return (limit.load() != 0 && waiting() >= limit.load()) ||
           (max_bytes.load() != 0 && waiting() != 0 && waiting_bytes() >= max_bytes.load());
  }

  /// The ticket records in the first block, with those of kept messages after the header.
  [[nodiscard]] static TicketContents contents(std::uint32_t kept = 0) noexcept {
    return {.kind = TicketContents::Kind::queue,
            .stride = sizeof(MessageEntry),
            .first = offsetof(QueueHeader, rings),
            .count = kRings + kFirstRing + kept};
  }
};
static_assert(sizeof(QueueHeader) ==
              offsetof(QueueHeader, first_ring) + QueueHeader::kFirstRing * sizeof(MessageEntry));

/// The ticket records in the block of a ring.
[[nodiscard]] constexpr TicketContents ring_contents(std::uint32_t entries) noexcept {
  return {.kind = TicketContents::Kind::message,
          .stride = sizeof(MessageEntry),
          .first = 0,
          .count = entries};
}

}  // namespace shmtensor
