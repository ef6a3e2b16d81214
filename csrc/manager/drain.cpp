#include "manager/drain.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "arena/range_allocator.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "manager/arena_registry.hpp"
#include "os/page_reservation.hpp"

namespace shmtensor {

namespace {

// Any process of the user can shorten a named object, and a process that reads past the end of a
// file is killed. So the size is read now.
std::uint64_t data_in_file_now(const Segment& segment) {
  if (segment.strategy() != Strategy::file_system) return segment.data_in_file();
  const std::uint64_t size = file_size(*segment.file());
  return size - std::min(size, segment.layout().data());
}

}  // namespace

std::optional<std::span<std::byte>> bytes_in(const Segment& segment, BlockNumber block) {
  const BlockRecord& record = segment.record(block);
  const std::uint64_t offset = record.offset.load();
  const std::uint64_t size = record.size.load();
  if (is_on_device(segment.strategy()) || offset % RangeAllocator::kUnit != 0) {
    return std::span<std::byte>();
  }
  try {
    if (!fits(offset, size, data_in_file_now(segment))) return std::span<std::byte>();
    return std::span(segment.data(Access::read_write, offset, size), size);
  } catch (const Error& error) {
    report("cannot map block " + std::to_string(block) + " of arena " +
           std::to_string(segment.number()) + ", which contains tickets: " + error.what());
    return std::nullopt;
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
  const std::optional<std::span<std::byte>> bytes = bytes_in(*segment, block);
  if (!bytes) return;  // until the next sweep
  if (contents.kind == TicketContents::Kind::pipe_end) {
    hang_up(*bytes, [this](const QueueName& name) { return hung_up(name); }, *this);
  } else if (contents.fit(bytes->size())) {
    for (std::uint32_t i = 0; i < contents.count; ++i) {
      cancel_named(contents.record(*bytes, i));
    }
  }
  record.word.store(word.freed().bits());
  arenas_.note_free(arena, block);
}

// The queue may have ended before, with the other end.
QueueHeader* Drain::hung_up(const QueueName& name) {
  const Segment* segment = arenas_.find(name.arena);
  QueueHeader* const queue = arenas_.queue(name.arena, name.block);
  if (queue == nullptr) return nullptr;
  const BlockWord word(segment->record(name.block).word.load());
  if (!word.live_at_generation(name.generation)) return nullptr;
  arenas_.note_hung_up(name.arena, name.block);
  return queue;
}

// Null if it cannot be mapped: any process can write a number into a record.
TransitTable* Drain::table_of(SlotNumber sender) const {
  if (sender >= kMaxSlots) return nullptr;
  try {
    return &memory_.transit(sender);
  } catch (const Error& error) {
    report(std::string("an unread message leaked: ") + error.what());
    return nullptr;
  }
}

void Drain::cancel(const NamedTicket& named) {
  TransitTable* const table = table_of(named.ticket.sender);
  if (table == nullptr) return;
  table->claim(named);
  if (arenas_.try_free_block(memory_, named.arena, named.block) == FreeResult::draining) {
    add(named.arena, named.block);
  }
}

bool Drain::is_live(const NamedTicket& named) {
  const TransitTable* const table = table_of(named.ticket.sender);
  return table != nullptr && table->is_live(named);
}

std::span<std::byte> Drain::map_ring(const NamedTicket& named, Strategy /*strategy*/) {
  const Segment* segment = arenas_.find(named.arena);
  if (segment == nullptr || named.block >= segment->capacity()) return {};
  return bytes_in(*segment, named.block).value_or(std::span<std::byte>());
}

}  // namespace shmtensor
