#include "queue/broadcast_summary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <span>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"
#include "base/align.hpp"
#include "os/read_file.hpp"
#include "queue/broadcast_layout.hpp"

namespace shmtensor {
namespace {

/// The bytes of a header; its words are aligned, so the kernel copies each as a whole.
struct HeaderCopy {
  alignas(BroadcastHeader) std::array<std::byte, sizeof(BroadcastHeader)> bytes;

  [[nodiscard]] const BroadcastHeader& header() const noexcept {
    return *reinterpret_cast<const BroadcastHeader*>(bytes.data());
  }
};

bool copy_header(const Segment& segment, std::uint64_t offset, HeaderCopy& copy) noexcept try {
  const Segment::File file = segment.file();
  return read_file(*file, segment.layout().data() + offset, copy.bytes);
} catch (const std::exception&) {
  return false;  // a named object that was unlinked, or descriptors or memory are short
}

// The count was copied before the records, so a reader may be found after it.
void count_readers(const BroadcastHeader& header, QueueSummary& seen) {
  const std::uint64_t tail = header.tail.count.load();
  for (const ReaderRecord& reader : header.readers) {
    if (!reader.reads()) continue;
    ++seen.readers;
    const std::uint64_t next = reader.next.load();
    if (next < tail) seen.messages = std::max(seen.messages, tail - next);
  }
  seen.messages = std::min(seen.messages, seen.limit);
}

}  // namespace

std::optional<QueueSummary> summarize_broadcast(const Segment& segment, BlockNumber block,
                                                const SessionMemory& memory) {
  const BlockRecord& record = segment.record(block);
  const BlockWord word(record.word.load());
  const std::uint64_t offset = record.offset.load();
  const auto copy = std::make_unique<HeaderCopy>();
  if (!word.live() || record.size.load() < sizeof(BroadcastHeader) ||
      !fits(offset, sizeof(BroadcastHeader), segment.layout().data_reserve) ||
      !copy_header(segment, offset, *copy)) {
    return std::nullopt;
  }
  const BroadcastHeader& header = copy->header();
  QueueSummary seen;
  seen.arena = segment.number();
  seen.block = block;
  seen.processes = count_processes(segment, block, memory);
  if (!BlockWord(record.word.load()).live_at_generation(word.generation()) ||
      header.magic.load() != kBroadcastMagic) {
    return std::nullopt;
  }
  const std::uint64_t limit = header.limit.load();
  const QueueStage stage = header.stage.load();
  seen.damaged = limit == 0 || limit > BroadcastHeader::kMostMessages ||
                 (stage != QueueStage::open && stage != QueueStage::shut_down);
  seen.label = header.label;
  if (seen.damaged) return seen;
  seen.limit = limit;
  seen.put = header.tail.count.load();
  seen.getters = (header.getters.load() & 1) != 0;
  seen.putters = (header.putters.load() & 1) != 0;
  seen.shut_down = stage == QueueStage::shut_down;
  count_readers(header, seen);
  return seen;
}

}  // namespace shmtensor
