// A member of the session writes what it likes into an arena and the session's memory, before or
// after the manager opens them. The manager goes through both as it does after a death, and neither
// crashes nor runs for ever.
#include <unistd.h>

#include <algorithm>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "base/error.hpp"
#include "input.hpp"
#include "manager/directory.hpp"
#include "manager/seats.hpp"
#include "os/random.hpp"

using namespace shmtensor;

namespace {

constexpr Geometry kSmall{256, 1 << 20};
constexpr std::uint64_t kFirstPages = 1 << 16;  // of the control segment: header, records, planes

struct Patch {
  std::uint64_t offset;
  std::uint64_t value;
};

// Numbers that programs trip over come more often than others.
Patch take_patch(fuzz::Input& input) {
  const auto offset = input.take<std::uint32_t>();
  const auto kind = input.take<std::uint8_t>();
  auto value = input.take<std::uint64_t>();
  if (kind % 4 == 1) value = ~std::uint64_t{0};
  if (kind % 4 == 2) value = std::uint64_t{1} << (value % 64);
  if (kind % 4 == 3) value &= 0xffff;
  return {offset, value};
}

void write_to(const Fd& file, const Patch& patch, std::uint64_t size) {
  const auto at = static_cast<off_t>(patch.offset % (size - 8) & ~std::uint64_t{7});
  if (::pwrite(file.get(), &patch.value, sizeof patch.value, at) < 0) throw_os("write a patch");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const SessionId id{random_word(), random_word()};
  const auto memory = SessionMemory::create(id);
  Member member(*memory, 1);
  Budget budget;
  memory->slot(1).life.store(1);
  memory->slot(1).status.store(SlotStatus::active);
  auto created = Segment::create(id, 1, 1, 1, Strategy::file_descriptor, kSmall);
  const Fd arena_file = (*created->file()).duplicate();
  Arena arena(std::move(created), member, &budget);
  const BlockNumber block = *arena.allocate(64);
  static_cast<void>(arena.send(block));

  const auto before = input.take<std::uint8_t>() % 8;
  const std::uint64_t session_size = SessionMemory::transit_offset(2);
  const auto patch_some = [&](int count) {
    for (int i = 0; i < count && !input.empty(); ++i) {
      const bool of_arena = input.take<std::uint8_t>() % 2 == 0;
      const Patch patch = take_patch(input);
      write_to(of_arena ? arena_file : memory->file(), patch,
               of_arena ? kFirstPages : session_size);
    }
  };
  patch_some(before);
  try {
    const auto opened = SessionMemory::open(id, memory->file().duplicate());
    Seats seats(*opened);
    seats.take_over();
    Directory directory;
    directory.add(Segment::open(id, 1, arena_file.duplicate()), true);
    patch_some(64);
    Statistics statistics;
    directory.count(statistics);
    static_cast<void>(count_in_flight(*opened));
    static_cast<void>(directory.owned_by(1));
    directory.sweep(*opened, 1);
    static_cast<void>(directory.collect(*opened, 0));
    directory.tend_orphans();
    directory.tell_owners();
  } catch (const Error&) {
    // refused
  }
  return 0;
}
