#include "queue/rings.hpp"

#include <bit>
#include <optional>

#include "base/error.hpp"

namespace shmtensor {

Ring::Ring(std::span<std::byte> bytes, std::uint64_t start) noexcept
    : entries_(reinterpret_cast<MessageEntry*>(bytes.data())),
      mask_(std::bit_floor(bytes.size() / sizeof(MessageEntry)) - 1),
      start_(start) {}

Ring ring_at(QueueHeader& queue, std::uint32_t number, RingMapper& mapper) {
  RingRecord& record = queue.ring(number);
  const std::uint64_t start = record.start.load();
  const std::optional<NamedTicket> named = record.ticket.read();
  if (!named) return {std::as_writable_bytes(std::span(queue.first_ring)), start};
  const std::span<std::byte> bytes = mapper.map_ring(*named, record.strategy.load());
  if (bytes.data() == nullptr) return {};
  if (bytes.size() < Ring::kLeastBytes) {
    throw SessionError("a queue is damaged: the block of a ring has " +
                       std::to_string(bytes.size()) + " bytes");
  }
  if (!is_aligned(bytes)) {
    throw SessionError("a queue is damaged: the block of a ring is not aligned");
  }
  return {bytes, start};
}

}  // namespace shmtensor
