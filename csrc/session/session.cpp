#include "session/session.hpp"

#include <algorithm>
#include <utility>

#include "arena/shortage.hpp"
#include "base/error.hpp"
#include "os/limits.hpp"

namespace shmtensor {
namespace {

// How often a thread makes an arena that others fill before it gets its block.
constexpr int kRounds = 16;

std::size_t index_of(Placement placement) noexcept {
  const auto strategy = static_cast<std::size_t>(placement.strategy);
  return placement.strategy == Strategy::device
             ? 4 + static_cast<std::size_t>(placement.device) % 16
             : strategy - 1;
}

bool is_on(const Arena& arena, Placement placement) {
  const Segment& segment = arena.segment();
  if (segment.strategy() != placement.strategy) return false;
  return placement.strategy != Strategy::device ||
         static_cast<cuda::DeviceDataSegment&>(arena.data()).gpu().number() == placement.device;
}

}  // namespace

Session::Session(std::unique_ptr<SessionMemory> memory, Connection connection, SlotNumber slot,
                 std::uint32_t incarnation, const Settings& settings, Budget& budget)
    : connection_(std::move(connection)),
      memory_(std::move(memory)),
      member_(*memory_, slot, this),
      incarnation_(incarnation),
      settings_(settings),
      budget_(budget) {}

std::optional<Block> Session::allocate_warm(std::uint64_t size, Placement placement) {
  member_.require_slot();  // before any lock, as in `allocate`
  PinnedArena arena;
  {
    const LockGuard guard(registry_lock_);
    if (Arena* current = current_[index_of(placement)]) arena = PinnedArena(*current);
  }
  if (!arena || !is_on(*arena, placement)) return std::nullopt;
  const std::optional<BlockNumber> number = arena->allocate_warm(size);
  if (!number) return std::nullopt;
  return Block{arena.get(), *number};
}

Block Session::allocate(std::uint64_t size, Placement placement) {
  member_.require_slot();  // before any lock, which a thread may have that is not in a raw copy
  return placement.strategy == Strategy::device ? allocate_on_device(size, placement)
                                                : allocate_on_host(size, placement);
}

Block Session::allocate_on_host(std::uint64_t size, Placement placement) {
  for (int round = 0; round < kRounds; ++round) {
    const ArenaNumber seen = newest_arena(placement);
    if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
    if (const std::string shortage = shortage_of(size, budget_); !shortage.empty()) {
      throw cannot_share(size, shortage);
    }
    // One thread makes the arena that all of them are waiting for.
    const LockGuard creation(creation_mutex_);
    if (newest_arena(placement) == seen) make_arena(size, placement);
  }
  throw cannot_share(size, "no arena can hold that");
}

// Growing on a device tells the manager, with the arena locked; the connection is locked before
// arenas.
Block Session::allocate_on_device(std::uint64_t size, Placement placement) {
  const LockGuard creation(creation_mutex_);
  const ConnectionGuard connection(*this);
  if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
  make_arena(size, placement);
  if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
  throw cannot_share(size, "no arena can hold that");
}

std::optional<Block> Session::allocate_in_own(std::uint64_t size, Placement placement) {
  const auto attempt = [&]() -> std::optional<Block> {
    for (const PinnedArena& arena : own_arenas(placement)) {
      if (const auto number = arena->allocate(size)) {
        set_current(placement, arena.get());
        return Block{arena.get(), *number};
      }
    }
    return std::nullopt;
  };
  try {
    return attempt();
  } catch (const OutOfMemory&) {
    // Dead processes may hold memory, if their deaths went unnoticed because the manager was
    // killed. Any request starts another manager, which checks all slots. This one cancels no
    // ticket.
    cancel_tickets(kUnlimited);
  }
  try {
    return attempt();
  } catch (const OutOfMemory&) {
    // All on the host give their idle pages back, for a table that cannot grow also those tried.
    for (const PinnedArena& arena : own_arenas()) {
      if (arena->segment().strategy() != Strategy::device) arena->collect(0);
    }
    drop_unused_orphans();
  }
  return attempt();
}

std::vector<PinnedArena> Session::pin_all() {
  std::vector<PinnedArena> all;
  const LockGuard guard(registry_lock_);
  all.reserve(arenas_.size());
  for (auto& [number, arena] : arenas_) all.emplace_back(*arena);
  return all;
}

std::vector<PinnedArena> Session::own_arenas() {
  std::vector<PinnedArena> found;
  const LockGuard guard(registry_lock_);
  for (auto& [number, arena] : arenas_) {
    if (arena->owned()) found.emplace_back(*arena);
  }
  return found;
}

std::vector<PinnedArena> Session::own_arenas(Placement placement) {
  std::vector<PinnedArena> found = own_arenas();
  std::erase_if(found, [placement](const PinnedArena& arena) { return !is_on(*arena, placement); });
  return found;
}

ArenaNumber Session::newest_arena(Placement placement) {
  ArenaNumber newest = 0;
  for (const PinnedArena& arena : own_arenas(placement)) {
    newest = std::max(newest, arena->segment().number());
  }
  return newest;
}

void Session::set_current(Placement placement, Arena* arena) noexcept {
  const LockGuard guard(registry_lock_);
  current_[index_of(placement)] = arena;
}

std::uint64_t Session::collect(std::uint64_t older_than_milliseconds) {
  const std::uint64_t cancelled = cancel_tickets(older_than_milliseconds);
  for (const PinnedArena& arena : own_arenas()) {
    if (arena->segment().strategy() != Strategy::device) {
      arena->collect(0);
      continue;
    }
    const ConnectionGuard connection(*this);  // before arenas: see `allocate_on_device`
    arena->collect(0);
  }
  {
    const LockGuard creation(creation_mutex_);
    retire_empty();
  }
  for (const PinnedArena& arena : pin_all()) arena->data().drop_gone();
  drop_unused_orphans();
  return cancelled;
}

bool Session::in_use() noexcept {
  const LockGuard guard(registry_lock_);
  return std::any_of(arenas_.begin(), arenas_.end(), [](const auto& pair) {
    return pair.second->owned() || pair.second->in_use();
  });
}

Session::Usage Session::usage() noexcept {
  Usage usage;
  usage.descriptors = 2;  // the connection and the session's memory
  usage.mappings = memory_->mapping_count();
  const LockGuard guard(registry_lock_);
  for (const auto& [number, arena] : arenas_) {
    ++usage.arenas;
    usage.reserved += arena->reserved();
    usage.descriptors +=
        (arena->segment().keeps_descriptor() ? 1 : 0) + arena->data().descriptor_count();
    usage.mappings += arena->segment().mapping_count();
  }
  return usage;
}

}  // namespace shmtensor
