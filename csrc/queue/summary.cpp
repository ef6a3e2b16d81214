#include "queue/summary.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "arena/ticket_record.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "os/read_file.hpp"
#include "queue/broadcast_layout.hpp"
#include "queue/cache_layout.hpp"
#include "queue/kept.hpp"
#include "queue/layout.hpp"

namespace shmtensor {
namespace {

// More than fit into memory. Two counts of an intact queue never differ by so much, although they
// are read at different instants.
constexpr std::uint64_t kImpossible = std::uint64_t{1} << 40;

/// What lies between two counts; 0 if the first one is behind, because it was read before.
std::uint64_t between(std::uint64_t tail, std::uint64_t head) noexcept {
  return tail > head ? tail - head : 0;
}

// Messages that dead consumers have not completed.
std::uint64_t count_returned(const QueueHeader& header, const Fd& file, std::uint64_t at) {
  if (header.redelivers.load() != 1) return 0;
  std::vector<KeptRecord> records(std::min(header.kept_used.load(), KeptMessages::kRecords));
  if (!read_file(file, at + KeptMessages::kOffsetOfRecords,
                 std::as_writable_bytes(std::span(records)))) {
    return 0;
  }
  return static_cast<std::uint64_t>(std::ranges::count_if(
      records, [](const KeptRecord& one) { return one.owner.load() == KeptRecord::kReturned; }));
}

/// What queues and broadcasts have in common. Returns false if the header is damaged.
template <typename Header>
bool read_common(const Header& header, QueueSummary& seen) {
  const QueueStage stage = header.stage.load();
  seen.limit = header.limit.load();
  seen.put = header.tail.count.load();
  seen.getters = (header.getters.load() & 1) != 0;
  seen.putters = (header.putters.load() & 1) != 0;
  seen.shut_down = stage == QueueStage::shut_down;
  return stage <= QueueStage::shut_down;
}

/// Returns false if the header is damaged. `at` is its place in the file.
bool count(const QueueHeader& header, const Fd& file, std::uint64_t at, QueueSummary& seen) {
  if (!read_common(header, seen)) return false;
  const std::uint64_t tail = header.tail.count.load();
  const std::uint64_t head = header.head.count.load();
  if (std::max(between(tail, head), between(head, tail)) >= kImpossible) return false;
  seen.messages = between(tail, head);
  if (seen.limit != 0) seen.messages = std::min(seen.messages, seen.limit);
  seen.messages += count_returned(header, file, at);
  seen.bytes = between(header.tail.bytes_of(tail), header.head.bytes_of(head));
  const auto more = static_cast<std::int32_t>(header.tail.ring.load() - header.head.ring.load());
  seen.rings = std::min(static_cast<std::uint32_t>(std::max(more, 0)), QueueHeader::kRings - 1) + 1;
  return true;
}

bool count(const BroadcastHeader& header, const Fd& file, std::uint64_t at, QueueSummary& seen) {
  if (!read_common(header, seen)) return false;
  if (seen.limit == 0 || seen.limit > BroadcastHeader::kMostMessages) return false;
  for (const ReaderRecord& reader : header.readers) {
    if (!reader.reads()) continue;
    ++seen.readers;
    const std::uint64_t unread = between(seen.put, reader.next.load());
    seen.messages =
        std::max(seen.messages, reader.skips() ? std::min<std::uint64_t>(unread, 1) : unread);
  }
  if (header.on_full.load() == OnFull::keep_newest) {
    seen.messages = std::min<std::uint64_t>(seen.put, 1);
  }
  seen.messages = std::min({seen.messages, seen.limit, between(seen.put, header.dropped.load())});
  MessageEntry before{};  // the first of them
  const std::uint64_t first = seen.put - seen.messages;
  const std::uint64_t place = (first - 1) % BroadcastHeader::entries(seen.limit);
  if (seen.messages == 0 ||
      (first != 0 && !read_file(file, at + sizeof(BroadcastHeader) + place * sizeof(MessageEntry),
                                std::as_writable_bytes(std::span(&before, 1))))) {
    return true;
  }
  seen.bytes = between(header.tail.bytes_of(seen.put), before.bytes.load());
  return true;
}

bool count(const CacheHeader& header, const Fd& /*file*/, std::uint64_t /*at*/,
           QueueSummary& seen) {
  const std::uint64_t changes = header.changes.count.load();
  seen.is_cache = true;
  seen.messages = header.items[changes % 2].load();
  seen.put = (changes + seen.messages) / 2;  // of all changes, so many added an item
  seen.bytes = header.changes.bytes_of(changes);
  return seen.messages < kImpossible;
}

template <typename Header>
std::optional<QueueSummary> summarize(const Segment& segment, BlockNumber block,
                                      const SessionMemory& memory, std::uint64_t magic) {
  const BlockRecord& record = segment.record(block);
  const BlockWord word(record.word.load());
  const std::uint64_t offset = record.offset.load();
  if (!word.live() || record.size.load() < sizeof(Header) ||
      !fits(offset, sizeof(Header), segment.layout().data_reserve)) {
    return std::nullopt;
  }
  const Segment::File file = segment.file();
  const std::uint64_t at = segment.layout().data() + offset;
  Header header;  // its words are aligned, so the kernel copies each as a whole
  if (!read_file(*file, at, std::as_writable_bytes(std::span(&header, 1)))) return std::nullopt;
  QueueSummary seen{.label = header.label,
                    .arena = segment.number(),
                    .block = block,
                    .max_bytes = header.max_bytes.load(),
                    .processes = count_processes(segment, block, memory)};
  if (!count(header, *file, at, seen)) {
    seen = {.label = seen.label,
            .arena = seen.arena,
            .block = block,
            .processes = seen.processes,
            .damaged = true};
  }
  const bool same = BlockWord(record.word.load()).live_at_generation(word.generation());
  return same && header.magic.load() == magic ? std::optional(seen) : std::nullopt;
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
  try {
    switch (TicketContents::of(segment.record(block).contents.load()).kind) {
      case TicketContents::Kind::queue:
        return summarize<QueueHeader>(segment, block, memory, kQueueMagic);
      case TicketContents::Kind::broadcast:
        return summarize<BroadcastHeader>(segment, block, memory, kBroadcastMagic);
      case TicketContents::Kind::cache:
        return summarize<CacheHeader>(segment, block, memory, kCacheMagic);
      default:
        return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;  // a named object that was unlinked, or descriptors are short
  }
}

}  // namespace shmtensor
