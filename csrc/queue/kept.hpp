// The messages that consumers of a queue have received and not completed. If a consumer is killed,
// another one receives its messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

/// The state of a record. The message itself is in a MessageEntry of the same number.
struct KeptRecord {
  static constexpr std::uint32_t kReturned = 0xffff'ffff;

  Atomic<std::uint32_t> owner;  ///< 0: free; kReturned; or the slot of the consumer + 1
  std::uint32_t reserved;
  Atomic<std::uint64_t> position;  ///< the count of messages that were put before it
};
static_assert(sizeof(KeptRecord) == 16);

/// The records after the header of a queue that redelivers. docs/design/queues.md proves
/// the protocol.
///
/// Processes: a consumer with the lock of the head makes a free or returned record its own. Only
/// its owner completes or returns the message; after the owner's death, the manager. All may read.
class KeptMessages {
 public:
  static constexpr std::uint32_t kRecords = kMaxSlots;
  static constexpr std::size_t kOffsetOfRecords =
      sizeof(QueueHeader) + kRecords * sizeof(MessageEntry);
  static constexpr std::size_t kBytes = kOffsetOfRecords + kRecords * sizeof(KeptRecord);

  /// Of a queue that does not redeliver.
  KeptMessages() noexcept = default;
  /// In the block of a queue; as a default one if the queue does not redeliver, or is damaged.
  [[nodiscard]] static KeptMessages in(std::span<std::byte> block) noexcept;

  explicit operator bool() const noexcept { return header_ != nullptr; }
  [[nodiscard]] MessageEntry& message(std::uint32_t number) const noexcept {
    return reinterpret_cast<MessageEntry*>(header_ + 1)[number];
  }
  [[nodiscard]] KeptRecord& record(std::uint32_t number) const noexcept {
    return records()[number];
  }
  /// The records that were ever used.
  [[nodiscard]] std::span<KeptRecord> used() const noexcept {
    if (header_ == nullptr) return {};
    return {records(), std::min(header_->kept_used.load(), kRecords)};
  }

  /// To be called with the lock of the head, like `own`.
  [[nodiscard]] std::optional<std::uint32_t> find_free() const noexcept;
  [[nodiscard]] std::optional<std::uint32_t> find_first_returned() const noexcept;
  /// Makes a record that is free, or returned, the caller's.
  void own(std::uint32_t number, SlotNumber owner) const noexcept;

  [[nodiscard]] bool has_free() const noexcept;
  [[nodiscard]] bool any_owned() const noexcept;
  /// Return true if a message is owned or returned.
  [[nodiscard]] bool any() const noexcept;
  [[nodiscard]] std::uint32_t count_returned() const noexcept;
  /// Return true if the message at this position was kept, so it must be counted as taken.
  [[nodiscard]] bool has(std::uint64_t position) const noexcept;

 private:
  explicit KeptMessages(QueueHeader& header) noexcept : header_(&header) {}
  [[nodiscard]] KeptRecord* records() const noexcept {
    return reinterpret_cast<KeptRecord*>(&message(kRecords));
  }

  QueueHeader* header_ = nullptr;
};

/// Return true if the event has happened to a queue.
[[nodiscard]] bool has_happened(const QueueHeader& queue, const KeptMessages& kept,
                                QueueEvent event) noexcept;

}  // namespace shmtensor
