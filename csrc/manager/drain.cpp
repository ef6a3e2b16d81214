#include "manager/drain.hpp"

#include <optional>

#include "base/align.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "manager/arena_registry.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {

std::span<std::byte> bytes_in(const Segment& segment, BlockNumber block) {
  const BlockRecord& record = segment.record(block);
  const std::uint64_t offset = record.offset.load();
  const std::uint64_t size = record.size.load();
  if (is_on_device(segment.strategy()) || !fits(offset, size, segment.data_in_file())) return {};
  try {
    return {segment.data(Access::read_write, offset, size), size};
  } catch (const Error& error) {
    report(std::string("cannot map a queue: ") + error.what());
    return {};
  }
}

void Drain::run() {
  while (!blocks_.empty()) {
    const auto [arena, block] = blocks_.back();
    blocks_.pop_back();
    empty(arena, block);
  }
}

void Drain::empty(ArenaNumber arena, BlockNumber block) {
  const Segment* segment = arenas_.find(arena);
  if (segment == nullptr || block >= segment->capacity()) return;
  BlockRecord& record = segment->record(block);
  const BlockWord word(record.word.load());
  if (!word.is_draining()) return;
  const auto contents = TicketContents::of(record.contents.load());
  const std::span<std::byte> bytes = bytes_in(*segment, block);
  if (bytes.data() != nullptr && contents.fit(bytes.size())) {
    for (std::uint32_t i = 0; i < contents.count; ++i) {
      const std::byte* at = bytes.data() + contents.first + std::uint64_t{i} * contents.stride;
      if (const auto named = reinterpret_cast<const TicketRecord*>(at)->read()) cancel(*named);
    }
  }
  SHMTENSOR_FAULT_POINT("manager.drained");
  record.word.store(word.freed().bits());
  arenas_.note_free(arena, block);
}

void Drain::cancel(const NamedTicket& named) {
  if (named.ticket.sender >= kMaxSlots) return;
  memory_.transit(named.ticket.sender)
      .claim(named.ticket, named.arena, named.block, named.generation);
  if (arenas_.try_free_block(memory_, named.arena, named.block) == FreeResult::draining) {
    add(named.arena, named.block);
  }
}

bool Drain::is_live(const NamedTicket& named) {
  return named.ticket.sender < kMaxSlots &&
         memory_.transit(named.ticket.sender)
             .is_live(named.ticket, named.arena, named.block, named.generation);
}

std::span<std::byte> Drain::map_ring(const NamedTicket& named, Strategy /*strategy*/) {
  const Segment* segment = arenas_.find(named.arena);
  if (segment == nullptr || named.block >= segment->capacity()) return {};
  return bytes_in(*segment, named.block);
}

}  // namespace shmtensor
