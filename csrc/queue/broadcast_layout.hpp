// The layout of a broadcast's shared memory. docs/design/queues.md draws it and proves its
// protocol.
//
// One block has the lock of the writers, a record for each reader, and the ring of messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kBroadcastMagic = 0x3174'7361'6362'7473;  // "stbcast1"

/// What a writer does when the slowest reader has not read the oldest message.
enum class OnFull : std::uint8_t {
  block = 0,        ///< waits
  drop_oldest = 1,  ///< puts, and the reader misses that message
  raise = 2,        ///< never waits
  keep_newest = 3,  ///< never waits, and the newest message stays, although no reader needs it
};

/// A reader. Only its process writes the record, until the manager finds that process dead.
struct alignas(64) ReaderRecord {
  /// reads:1 | skips:1 | 0:14 | slot of the process + 1:16. Zero: unused. A reader that does not
  /// read yet has no position.
  Atomic<std::uint32_t> owner;
  Atomic<std::int32_t> processor;  ///< of its last attempt
  Atomic<std::uint64_t> next;      ///< the number of its next message

  static constexpr std::uint32_t kReads = 1u << 31;
  static constexpr std::uint32_t kSkips = 1u << 30;

  [[nodiscard]] static constexpr std::uint32_t owned_by(SlotNumber slot) noexcept {
    return slot + 1u;
  }
  /// Not the number of a slot if the record is unused.
  [[nodiscard]] std::uint32_t slot() const noexcept { return (owner.load() & 0xffff) - 1; }
  [[nodiscard]] bool reads() const noexcept { return (owner.load() & kReads) != 0; }
  /// Return true if it needs no message but the newest.
  [[nodiscard]] bool skips() const noexcept { return (owner.load() & kSkips) != 0; }
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one cache line for each writer
struct BroadcastHeader {
  static constexpr std::uint32_t kReaders = 256;
  static constexpr std::uint64_t kMostMessages = 65'536;

  Atomic<std::uint64_t> magic;
  Atomic<std::uint64_t> limit;      ///< messages that fit
  Atomic<std::uint64_t> max_bytes;  ///< with so many unread it is full; 0: never
  Atomic<OnFull> on_full;
  /// No reader takes the messages before this one: they had too many bytes. Written with the lock
  /// of the tail, and rarely: all readers read it.
  Atomic<std::uint64_t> dropped;
  QueueEnd tail;
  alignas(64) Atomic<std::uint32_t> getters;  ///< WaitFlag: until there is a message
  alignas(64) Atomic<std::uint32_t> putters;  ///< WaitFlag: until there is room, or a reader
  alignas(64) Atomic<QueueStage> stage;
  Atomic<std::uint32_t> used;  ///< no record from this one on was ever used
  QueueLabel label;
  std::array<ReaderRecord, kReaders> readers;

  /// One entry is always spare: that of the next message. Only there can a killed writer have left
  /// the name of a live ticket that no reader can find.
  [[nodiscard]] static constexpr std::uint64_t entries(std::uint64_t limit) noexcept {
    return limit + 1;
  }
  [[nodiscard]] static constexpr std::uint64_t bytes(std::uint64_t limit) noexcept {
    return sizeof(BroadcastHeader) + entries(limit) * sizeof(MessageEntry);
  }
  /// The ticket records in the block.
  [[nodiscard]] static TicketContents contents(std::uint64_t limit) noexcept {
    return {.kind = TicketContents::Kind::broadcast,
            .stride = sizeof(MessageEntry),
            .first = sizeof(BroadcastHeader),
            .count = static_cast<std::uint32_t>(entries(limit))};
  }
};
static_assert(sizeof(BroadcastHeader) < 0x10000);  // TicketContents::first

}  // namespace shmtensor
