// Finds the entries of a queue's messages, in any process that has the queue mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arena/ticket_record.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

/// Maps the blocks of rings.
class RingMapper {
 public:
  RingMapper() = default;
  RingMapper(const RingMapper&) = delete;
  RingMapper& operator=(const RingMapper&) = delete;
  virtual ~RingMapper() = default;

  /// Returns the bytes of the ring's block, at least until the lock of the end is released; empty
  /// if this process has not mapped the arena. Any process could have damaged the record of the
  /// block.
  [[nodiscard]] virtual std::span<std::byte> map_ring(const NamedTicket& named,
                                                      Strategy strategy) = 0;
};

/// Return true if the atomics of a queue can be in these bytes. The blocks of an arena are aligned,
/// unless another process damaged their records.
[[nodiscard]] inline bool is_aligned(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(QueueHeader) == 0;
}

/// A ring whose block is mapped. Its number of entries is a power of two.
class Ring {
 public:
  static constexpr std::size_t kLeastBytes = 2 * sizeof(MessageEntry);

  Ring() noexcept = default;
  /// Uses as many entries of the bytes as are a power of two.
  Ring(std::span<std::byte> bytes, std::uint64_t start) noexcept;

  explicit operator bool() const noexcept { return entries_ != nullptr; }
  [[nodiscard]] std::uint64_t start() const noexcept { return start_; }
  /// How many messages fit. One entry is always spare: that of the next message, in which a killed
  /// process may have left the name of a ticket.
  [[nodiscard]] std::uint64_t room() const noexcept { return mask_; }
  [[nodiscard]] MessageEntry& entry(std::uint64_t count) const noexcept {
    return entries_[(count - start_) & mask_];
  }
  /// Return true if that message lies in the first entry.
  [[nodiscard]] bool begins_at(std::uint64_t count) const noexcept {
    return ((count - start_) & mask_) == 0;
  }

 private:
  MessageEntry* entries_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t start_ = 0;
};

/// The number of the ring in which the next message to be taken lies. `head` is the count of
/// messages that were taken. To be called with the lock of the head.
[[nodiscard]] inline std::uint32_t ring_of_head(QueueHeader& queue, std::uint64_t head) noexcept {
  const std::uint32_t number = queue.head.ring.load();
  const bool moved =
      number != queue.tail.ring.load() && queue.ring(number + 1).start.load() == head;
  return moved ? number + 1 : number;
}

/// Empty if this process has not mapped the arena. Throws SessionError if the block is damaged.
[[nodiscard]] Ring ring_at(QueueHeader& queue, std::uint32_t number, RingMapper& mapper);

}  // namespace shmtensor
