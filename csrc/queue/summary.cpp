#include "queue/summary.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/ticket_record.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "os/read_file.hpp"
#include "queue/broadcast_summary.hpp"
#include "queue/kept.hpp"
#include "queue/layout.hpp"

namespace shmtensor {
namespace {

// The counts are aligned words, which the kernel copies as a whole.
constexpr std::size_t kBytes = offsetof(QueueHeader, rings);
using Bytes = std::array<std::byte, kBytes>;

// While consumers act, the counts of the two ends are of different instants.
constexpr int kAttempts = 16;

template <typename Value>
Value value_at(const Bytes& bytes, std::size_t offset) noexcept {
  Value value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

constexpr std::size_t kTailCount = offsetof(QueueHeader, tail) + offsetof(QueueEnd, count);
constexpr std::size_t kHeadCount = offsetof(QueueHeader, head) + offsetof(QueueEnd, count);
constexpr std::size_t kTailRing = offsetof(QueueHeader, tail) + offsetof(QueueEnd, ring);
constexpr std::size_t kHeadRing = offsetof(QueueHeader, head) + offsetof(QueueEnd, ring);

struct Copy {
  Bytes bytes;
  std::uint64_t head = 0;  ///< count of messages that were taken, before the bytes were copied
  std::uint32_t head_ring = 0;
  bool exact = false;  ///< the head did not move meanwhile
};

// If the head is the same in two copies, the second one is of one instant: that at which its tail
// was copied. Otherwise the earlier head is used, so that no difference is negative.
std::optional<Copy> copy_header(const Segment& segment, std::uint64_t offset) try {
  const Segment::File file = segment.file();
  const std::uint64_t at = segment.layout().data() + offset;
  Copy copy;
  if (!read_file(*file, at, copy.bytes)) return std::nullopt;
  for (int attempt = 0; attempt < kAttempts && !copy.exact; ++attempt) {
    copy.head = value_at<std::uint64_t>(copy.bytes, kHeadCount);
    copy.head_ring = value_at<std::uint32_t>(copy.bytes, kHeadRing);
    if (!read_file(*file, at, copy.bytes)) return std::nullopt;
    copy.exact = value_at<std::uint64_t>(copy.bytes, kHeadCount) == copy.head &&
                 value_at<std::uint32_t>(copy.bytes, kHeadRing) == copy.head_ring;
  }
  return copy;
} catch (const Error&) {
  return std::nullopt;  // a named object that was unlinked, or descriptors are short
}

// Messages that dead consumers have not completed.
std::uint64_t count_returned(const Segment& segment, std::uint64_t offset,
                             const Bytes& header) try {
  if (value_at<std::uint32_t>(header, offsetof(QueueHeader, redelivers)) != 1) return 0;
  const std::uint32_t used = std::min(
      value_at<std::uint32_t>(header, offsetof(QueueHeader, kept_used)), KeptMessages::kRecords);
  std::vector<std::byte> records(used * sizeof(KeptRecord));
  const std::uint64_t at = segment.layout().data() + offset + KeptMessages::kOffsetOfRecords;
  if (!read_file(*segment.file(), at, records)) return 0;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < used; ++i) {
    std::uint32_t owner = 0;
    std::memcpy(&owner, &records.at(i * sizeof(KeptRecord)), sizeof owner);
    count += owner == KeptRecord::kReturned ? 1u : 0u;
  }
  return count;
} catch (const Error&) {
  return 0;
}

}  // namespace

std::uint32_t count_processes(const Segment& segment, BlockNumber block,
                              const SessionMemory& memory) noexcept {
  std::uint32_t count = 0;
  for (std::uint32_t planes = segment.planes(); planes != 0; planes &= planes - 1) {
    const auto plane = static_cast<std::uint32_t>(std::countr_zero(planes));
    for (std::uint64_t bits = segment.holders(plane, block).load(); bits != 0; bits &= bits - 1) {
      const auto slot =
          static_cast<SlotNumber>(plane * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
      if (is_in(memory.slot(slot).status.load())) ++count;
    }
  }
  return count;
}

std::optional<QueueSummary> summarize_queue(const Segment& segment, BlockNumber block,
                                            const SessionMemory& memory) {
  if (is_on_device(segment.strategy()) || block >= segment.capacity()) return std::nullopt;
  const BlockRecord& record = segment.record(block);
  const BlockWord word(record.word.load());
  const std::uint64_t offset = record.offset.load();
  const auto contents = TicketContents::of(record.contents.load());
  if (contents.kind == TicketContents::Kind::broadcast) {
    return summarize_broadcast(segment, block, memory);
  }
  if (!word.live() || contents.kind != TicketContents::Kind::queue ||
      record.size.load() < sizeof(QueueHeader) ||
      !fits(offset, sizeof(QueueHeader), segment.layout().data_reserve)) {
    return std::nullopt;
  }
  const std::optional<Copy> copy = copy_header(segment, offset);
  if (!copy) return std::nullopt;
  const Bytes& bytes = copy->bytes;
  QueueSummary seen;
  seen.arena = segment.number();
  seen.block = block;
  seen.processes = count_processes(segment, block, memory);
  if (!BlockWord(record.word.load()).live_at_generation(word.generation()) ||
      value_at<std::uint64_t>(bytes, offsetof(QueueHeader, magic)) != kQueueMagic) {
    return std::nullopt;
  }
  const auto tail = value_at<std::uint64_t>(bytes, kTailCount);
  const std::uint32_t rings = value_at<std::uint32_t>(bytes, kTailRing) - copy->head_ring + 1;
  const auto stage = value_at<std::uint8_t>(bytes, offsetof(QueueHeader, stage));
  seen.damaged = copy->head > tail || stage > static_cast<std::uint8_t>(QueueStage::shut_down) ||
                 rings == 0 || (copy->exact && rings > QueueHeader::kRings);
  seen.label = value_at<QueueLabel>(bytes, offsetof(QueueHeader, label));
  if (seen.damaged) return seen;
  seen.limit = value_at<std::uint64_t>(bytes, offsetof(QueueHeader, limit));
  const std::uint64_t messages = tail - copy->head;
  seen.messages = seen.limit == 0 ? messages : std::min(messages, seen.limit);
  seen.messages += count_returned(segment, offset, bytes);
  seen.put = tail;
  seen.rings = std::min(rings, QueueHeader::kRings);
  seen.getters = (value_at<std::uint32_t>(bytes, offsetof(QueueHeader, getters)) & 1) != 0;
  seen.putters = (value_at<std::uint32_t>(bytes, offsetof(QueueHeader, putters)) & 1) != 0;
  seen.shut_down = stage == static_cast<std::uint8_t>(QueueStage::shut_down);
  return seen;
}

}  // namespace shmtensor
