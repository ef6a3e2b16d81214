#include "session/session.hpp"

#include <utility>

#include "arena/shortage.hpp"
#include "base/error.hpp"
#include "manager/recovery.hpp"
#include "os/limits.hpp"

namespace shmtensor {
namespace {

// How often a thread makes an arena that others fill before it gets its block.
constexpr int kRounds = 16;

}  // namespace

Session::Session(std::unique_ptr<SessionMemory> memory, Connection connection, SlotNumber slot,
                 std::uint32_t incarnation, const Settings& settings, Budget& budget)
    : manager_(std::move(connection), *memory, member_, incarnation, arenas_, settings.program),
      memory_(std::move(memory)),
      member_(*memory_, slot, &manager_),
      settings_(settings),
      budget_(budget) {}

std::unique_ptr<Session> Session::connect(const SessionId& id, Start start,
                                          const Settings& settings, Budget& budget) {
  for (int attempt = 0; attempt < ManagerClient::kAttempts; ++attempt) {
    Connection connection =
        Connection::open(id, start == Start::always ? settings.program : std::string());
    // The number in a damaged or forged handle names no session, so it starts no manager.
    if (!connection && start == Start::if_it_lives && recover_session(id) != nullptr) {
      connection = Connection::open(id, settings.program);
    }
    if (!connection) return nullptr;
    Message hello = message_for(MessageKind::hello, id);
    hello.join = start == Start::always ? Join::create : Join::existing;
    hello.parent = settings.parent;
    std::optional<Reply> reply = connection.ask(hello);
    if (!reply) continue;  // the manager was exiting, or was killed
    if (reply->message.kind == MessageKind::unknown) return nullptr;
    auto memory = SessionMemory::open(id, std::move(reply->fd));
    memory->record_manager();
    // The manager was killed in this time. If no other process had the memory open, the next
    // manager did not find it and started a new session.
    if (!memory->has_manager()) continue;
    const auto slot = static_cast<SlotNumber>(reply->message.slot);
    if (!memory->enter(slot, SlotStatus::joining)) continue;
    return std::unique_ptr<Session>(new Session(std::move(memory), std::move(connection), slot,
                                                reply->message.incarnation, settings, budget));
  }
  ManagerClient::throw_connection_closed(id);
}

std::optional<Block> Session::allocate_warm(std::uint64_t size, Placement placement) {
  member_.require_slot();  // before any lock, as in `allocate`
  const PinnedArena arena = arenas_.current(placement);
  if (!arena) return std::nullopt;
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
    const ArenaNumber seen = arenas_.newest(placement);
    if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
    if (const std::string shortage = shortage_of(size, budget_); !shortage.empty()) {
      throw cannot_share(size, shortage);
    }
    // One thread makes the arena that all of them are waiting for.
    const LockGuard creation(creation_mutex_);
    if (arenas_.newest(placement) == seen) make_arena(size, placement);
  }
  throw cannot_share(size, "no arena can hold that");
}

// Growing on a device notifies the manager, with the arena locked; the connection is locked before
// arenas.
Block Session::allocate_on_device(std::uint64_t size, Placement placement) {
  const LockGuard creation(creation_mutex_);
  const ManagerClient::Guard connection(manager_);
  if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
  make_arena(size, placement);
  if (const std::optional<Block> block = allocate_in_own(size, placement)) return *block;
  throw cannot_share(size, "no arena can hold that");
}

std::optional<Block> Session::allocate_in_own(std::uint64_t size, Placement placement) {
  const auto attempt = [&]() -> std::optional<Block> {
    for (const PinnedArena& arena : arenas_.owned(placement)) {
      if (const auto number = arena->allocate(size)) {
        arenas_.set_current(placement, arena.get());
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
    manager_.cancel_tickets(kUnlimited);
  }
  try {
    return attempt();
  } catch (const OutOfMemory&) {
    // All on the host give their idle pages back, for a table that cannot grow also those tried.
    for (const PinnedArena& arena : arenas_.owned()) {
      if (arena->segment().strategy() != Strategy::device) arena->collect(0);
    }
    drop_unused_orphans();
  }
  return attempt();
}

std::uint64_t Session::collect(std::uint64_t older_than_milliseconds) {
  const std::uint64_t cancelled = manager_.cancel_tickets(older_than_milliseconds);
  for (const PinnedArena& arena : arenas_.owned()) {
    if (arena->segment().strategy() != Strategy::device) {
      arena->collect(0);
      continue;
    }
    const ManagerClient::Guard connection(manager_);  // before arenas: see `allocate_on_device`
    arena->collect(0);
  }
  {
    const LockGuard creation(creation_mutex_);
    retire_empty();
  }
  for (const PinnedArena& arena : arenas_.all()) arena->data().drop_gone();
  drop_unused_orphans();
  return cancelled;
}

MappedArenas::Usage Session::usage() noexcept {
  MappedArenas::Usage usage = arenas_.usage();
  usage.descriptors += 2;  // the connection and the session's memory
  usage.mappings += memory_->mapping_count();
  return usage;
}

}  // namespace shmtensor
