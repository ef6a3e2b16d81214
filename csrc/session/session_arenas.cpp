// The arenas that a session has mapped in this process: made, attached, retired, unmapped.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "arena/extent_table.hpp"
#include "base/error.hpp"
#include "manager/manager_address.hpp"
#include "os/fault_point.hpp"
#include "os/limits.hpp"
#include "os/shm_object.hpp"
#include "session/session.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kExtent = ExtentTable::kExtent;
constexpr std::uint64_t kLargestReserve = 256 * kGiB;

cuda::Uuid uuid_of(const DeviceId& device) noexcept { return std::bit_cast<cuda::Uuid>(device); }

StaleHandle gone(const SessionId& session, ArenaNumber number,
                 const char* or_else =
                     "; perhaps the parent of this process ended before its "
                     "arguments were loaded") {
  return StaleHandle("cannot use a tensor's handle: arena " + std::to_string(number) +
                     " of session " + session.hex() + " no longer exists, nor do its tensors" +
                     or_else);
}

// Reserves address space for all memory of the machine; unused address space costs nothing. A
// process with a limit on address space uses a part of that limit. A larger tensor gets an arena of
// its own. Tables are small if this process or the manager has such a limit.
SegmentLayout layout_for(std::uint64_t size, Strategy strategy, bool small_tables) {
  SegmentLayout layout;
  const std::uint64_t limit = address_space_limit();
  if (small_tables || limit != kUnlimited) layout.max_blocks = std::uint32_t{1} << 16;
  if (is_on_device(strategy)) {
    layout.data_reserve = 64 * kMiB;  // most of the memory is on the device
    return layout;
  }
  std::uint64_t reserve = std::clamp(std::bit_ceil(physical_memory()), kGiB, kLargestReserve);
  if (limit != kUnlimited) {
    reserve = std::clamp(align_down(limit / 16, kExtent), 16 * kMiB, reserve);
  }
  layout.data_reserve = std::max(reserve, align_up(size + kExtent, kExtent));
  return layout;
}

}  // namespace

// Unmaps arenas of this process in which nothing is allocated, and gives them up: for the manager
// and for peers they are orphan arenas from now on. The header comes first, so that also a manager
// that finds the arena later knows. Called with the creation locked, which keeps a fork away.
void Session::retire_empty() {
  for (const auto& arena : arenas_.take_empty()) {
    arena->segment().header().orphaned.store(1);
    SHMTENSOR_FAULT_POINT("retire.before_request");
    try {
      manager_.retire_arena(arena->segment().number());
    } catch (const Error&) {
      // The manager keeps an empty file until this process ends.
    }
  }
}

void Session::make_arena(std::uint64_t size, Placement placement) {
  member_.require_slot();
  // What does not fit may take the address space of arenas in which nothing is allocated.
  arenas_.set_current(placement, nullptr);
  retire_empty();
  const Strategy strategy = placement.strategy;
  DeviceId device{};
  if (strategy == Strategy::device) {
    device = std::bit_cast<DeviceId>(cuda::Gpu::get(placement.device).uuid());
  }
  const ArenaNumber number = memory_->new_arena_number();
  const bool small_tables = memory_->header().small_tables.load() != 0;
  auto segment =
      Segment::create(id(), number, member_.slot(), manager_.incarnation(), strategy,
                      layout_for(size, strategy, small_tables), device, settings_.visible_in);
  SHMTENSOR_FAULT_POINT("register.before");
  try {
    manager_.register_arena(*segment);
  } catch (...) {
    if (strategy == Strategy::file_system) unlink_shm(arena_name(id(), number));
    throw;
  }
  SHMTENSOR_FAULT_POINT("register.after");
  const PinnedArena arena = add(std::move(segment), true);
  arenas_.set_current(placement, arena.get());
}

PinnedArena Session::add(std::unique_ptr<Segment> segment, bool owned) {
  std::unique_ptr<DataSegment> data;
  if (segment->strategy() == Strategy::device) {
    const cuda::Gpu& gpu = cuda::Gpu::with_uuid(uuid_of(segment->header().device));
    data = std::make_unique<cuda::DeviceDataSegment>(*segment, gpu, manager_, owned);
  }
  Budget* const budget = owned ? &budget_ : nullptr;
  return arenas_.add(std::make_unique<Arena>(std::move(segment), member_, budget, std::move(data)));
}

PinnedArena Session::find(ArenaNumber number) noexcept {
  if (!member_.has_slot()) return {};  // `attach` reports why
  return arenas_.find(number);
}

std::unique_ptr<Segment> Session::open_named(ArenaNumber number) {
  try {
    auto segment = Segment::open_named(id(), number);
    segment->ensure_plane(member_.slot());
    return segment;
  } catch (const OsError& error) {
    if (error.code() != ENOENT) throw;
    const bool containers = runtime_directory() != nullptr;
    throw gone(id(), number,
               containers
                   ? ", or they are in another container's /dev/shm (its sharing strategy is "
                     "file_system; use file_descriptor)"
                   : "");
  }
}

std::unique_ptr<Segment> Session::open_memfd(ArenaNumber number) {
  const auto find_file = [this, number] {
    Fd file = manager_.find_arena(number);
    if (!file) throw gone(id(), number);
    return file;
  };
  Fd file = find_file();
  const bool scarce = static_cast<std::uint64_t>(file.get()) > descriptor_limit() / 2;
  auto segment = Segment::open(id(), number, std::move(file));
  // Unless descriptors are short, the descriptor is kept, so that a new manager can be sent the
  // arena if this manager and the owner are killed.
  if (scarce) segment->drop_descriptor(find_file);
  segment->ensure_plane(member_.slot());
  return segment;
}

PinnedArena Session::attach(ArenaNumber number, Strategy strategy) {
  if (PinnedArena arena = find(number)) return arena;
  member_.require_slot();
  drop_unused_orphans();
  PinnedArena arena =
      add(strategy == Strategy::file_system ? open_named(number) : open_memfd(number), false);
  // The manager that gave the file may have been killed before it arrived here, where the next one
  // would have found it.
  manager_.ensure();
  return arena;
}

void Session::cancel(const NamedTicket& named, Strategy strategy) {
  if (named.ticket.sender >= kMaxSlots) return;
  try {
    const PinnedArena arena = attach(named.arena, strategy);
    if (named.block < arena->segment().capacity()) {
      arena->cancel_send(named.block, named.generation, named.ticket);
    }
  } catch (const StaleHandle&) {
    // Another process has cancelled it, and nothing else was in the arena. Or the arena was lost.
    memory_->claim(named);
  }
}

void Session::unmap_unused() {
  unmap_peers(false);
  const LockGuard creation(creation_mutex_);
  retire_empty();
}

void Session::unmap_peers(bool orphans_only) {
  if (!member_.has_slot()) return;
  // Messages may still carry blocks of these arenas. A manager that takes over finds an arena only
  // if a process has it open, so this process keeps them until a manager has them.
  manager_.ensure();
  if (!memory_->has_manager()) return;
  static_cast<void>(arenas_.take_unused(orphans_only));
}

}  // namespace shmtensor
