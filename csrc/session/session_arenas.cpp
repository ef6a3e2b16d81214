// The arenas that a session has mapped in this process: made, attached, retired, unmapped.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <thread>
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

StaleHandle gone(const SessionId& session, ArenaNumber number, const char* or_else = "") {
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
  std::vector<std::unique_ptr<Arena>> retired;
  {
    const LockGuard guard(registry_lock_);
    for (auto at = arenas_.begin(); at != arenas_.end();) {
      Arena& arena = *at->second;
      const bool current = std::ranges::find(current_, &arena) != std::end(current_);
      // Each thread that uses an arena has pinned it, and pins it with the list locked.
      if (!arena.owned() || is_on_device(arena.segment().strategy()) || current || arena.in_use() ||
          !arena.is_empty()) {
        ++at;
        continue;
      }
      retired.push_back(std::move(at->second));
      at = arenas_.erase(at);
    }
  }
  for (const auto& arena : retired) {
    arena->segment().header().orphaned.store(1);
    SHMTENSOR_FAULT_POINT("retire.before_request");
    Message message = message_for(MessageKind::retire_arena, id());
    message.arena = arena->segment().number();
    try {
      static_cast<void>(ask(message));
    } catch (const Error&) {
      // The manager keeps an empty file until this process ends.
    }
  }
}

void Session::make_arena(std::uint64_t size, Placement placement) {
  member_.require_slot();
  // What does not fit may take the address space of arenas in which nothing is allocated.
  set_current(placement, nullptr);
  retire_empty();
  const Strategy strategy = placement.strategy;
  DeviceId device{};
  if (strategy == Strategy::device) {
    device = std::bit_cast<DeviceId>(cuda::Gpu::get(placement.device).uuid());
  }
  const ArenaNumber number = memory_->new_arena_number();
  const bool small_tables = memory_->header().small_tables.load() != 0;
  auto segment =
      Segment::create(id(), number, member_.slot(), incarnation_, strategy,
                      layout_for(size, strategy, small_tables), device, settings_.visible_in);
  SHMTENSOR_FAULT_POINT("register.before");
  Message message = message_for(MessageKind::register_arena, id());
  message.arena = number;
  message.strategy = static_cast<std::uint32_t>(strategy);
  try {
    const Segment::File file = segment->file();
    ask(message, strategy == Strategy::file_system ? -1 : (*file).get());
  } catch (...) {
    if (strategy == Strategy::file_system) unlink_shm(arena_name(id(), number));
    throw;
  }
  SHMTENSOR_FAULT_POINT("register.after");
  const PinnedArena arena = add(std::move(segment), true);
  set_current(placement, arena.get());
}

PinnedArena Session::add(std::unique_ptr<Segment> segment, bool owned) {
  const ArenaNumber number = segment->number();
  auto made = make(std::move(segment), owned);
  const LockGuard guard(registry_lock_);
  // Another thread may have been quicker; then its arena is used and this one dropped.
  return PinnedArena(*arenas_.try_emplace(number, std::move(made)).first->second);
}

std::unique_ptr<Arena> Session::make(std::unique_ptr<Segment> segment, bool owned) {
  if (segment->strategy() != Strategy::device) {
    return std::make_unique<Arena>(std::move(segment), member_, owned ? &budget_ : nullptr);
  }
  const cuda::Gpu& gpu = cuda::Gpu::with_uuid(uuid_of(segment->header().device));
  auto data = std::make_unique<cuda::DeviceDataSegment>(*segment, gpu, chunk_keeper(), owned);
  return std::make_unique<Arena>(std::move(segment), std::move(data), member_, owned);
}

PinnedArena Session::find(ArenaNumber number) noexcept {
  if (!member_.has_slot()) return {};  // `attach` reports why
  const LockGuard guard(registry_lock_);
  const auto at = arenas_.find(number);
  return at != arenas_.end() ? PinnedArena(*at->second) : PinnedArena();
}

Fd Session::find_memfd(ArenaNumber number) {
  Message message = message_for(MessageKind::find_arena, id());
  message.arena = number;
  for (int search = 0; search < kSearches; ++search) {
    Reply reply = ask(message);
    if (reply.fd) return std::move(reply.fd);
    if (reply.message.unfinished == 0) throw gone(id(), number);
    std::this_thread::sleep_for(kSearchPause);
  }
  throw SessionError(
      "cannot reach arena " + std::to_string(number) + " of session " + id().hex() +
      ": the session's manager was killed, and a process in another PID namespace, "
      "which may have the arena, has not used the session since; retry after it has");
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
  Fd file = find_memfd(number);
  const bool scarce = static_cast<std::uint64_t>(file.get()) > descriptor_limit() / 2;
  auto segment = Segment::open(id(), number, std::move(file));
  // Unless descriptors are short, the descriptor is kept, so that a new manager can be told about
  // the arena if this manager and the owner are killed.
  if (scarce) segment->drop_descriptor([this, number] { return find_memfd(number); });
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
  ensure_manager();
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
    memory_->transit(named.ticket.sender).claim(named);
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
  ensure_manager();
  if (!memory_->has_manager()) return;
  std::vector<std::unique_ptr<Arena>> dropped;  // unmapped after the lock is released
  const LockGuard guard(registry_lock_);
  for (auto at = arenas_.begin(); at != arenas_.end();) {
    const Arena& arena = *at->second;
    const bool orphan = arena.segment().header().orphaned.load() != 0;
    if (arena.owned() || arena.in_use() || (orphans_only && !orphan)) {
      ++at;
      continue;
    }
    dropped.push_back(std::move(at->second));
    at = arenas_.erase(at);
  }
}

}  // namespace shmtensor
