#include "manager/kept_names.hpp"

#include <algorithm>

namespace shmtensor {
namespace {

std::size_t index_of(std::uint32_t number, std::uint32_t place) {
  return NameTable::mark_of(number, place) - TicketGroup::kFirstKept;
}

}  // namespace

KeptNames KeptNames::of(const SessionMemory& memory, std::uint64_t idle) {
  KeptNames kept;
  if (memory.header().keeps_names.load() == 0) return kept;  // nor may there be a table
  const NameTable& table = memory.names();
  kept.marks.resize(std::size_t{2} * NameTable::kNames);
  for (std::uint32_t number = 0; number < NameTable::kNames; ++number) {
    const NameRecord& record = table.records[number];
    const NameState state{record.state.load()};
    const std::uint64_t time = state.is_published() ? record.kept_for(state.place()) : 0;
    if (time <= idle) continue;
    const std::uint64_t left = time == NameRecord::kUntilDropped ? time : time - idle;
    kept.left = std::min(left, kept.left.value_or(left));
    kept.marks[index_of(number, state.place())] = true;
  }
  return kept;
}

void KeptNames::remove_others(const SessionMemory& memory) const {
  NameTable& table = memory.names();
  for (std::uint32_t number = 0; number < NameTable::kNames; ++number) {
    if (table.records[number].key.load() == 0) continue;  // not used: most are not
    const NameState state{table.records[number].state.load()};
    const bool stays = marks[index_of(number, state.place())];
    const NameStage stage = stays ? NameStage::published : NameStage::free;
    if (state.stage() != stage) {
      table.change(number, state,
                   state.next(stage, state.place(), state.slot(), state.incarnation()));
    }
    for (std::uint32_t place = 0; place < 2; ++place) {
      if (!marks[index_of(number, place)]) table.write_handle(number, place, NameHandle{});
    }
  }
}

}  // namespace shmtensor
