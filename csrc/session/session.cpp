#include "session/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "arena/host_data.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "os/fault_point.hpp"
#include "os/limits.hpp"
#include "os/process.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr int kAttempts = 5;
constexpr std::uint64_t kExtent = HostData::kExtent;
constexpr std::uint64_t kLargestReserve = 256 * kGiB;

Message make_message(Kind kind, const SessionId& session) noexcept {
  Message message;
  message.kind = kind;
  message.session = session;
  return message;
}

std::size_t index_of(Place place) noexcept {
  const auto strategy = static_cast<std::size_t>(place.strategy);
  return place.strategy == Strategy::device ? 4 + static_cast<std::size_t>(place.device) % 16
                                            : strategy - 1;
}

bool is_on(const Arena& arena, Place place) {
  const Segment& segment = arena.segment();
  if (segment.strategy() != place.strategy) return false;
  return place.strategy != Strategy::device ||
         static_cast<cuda::DeviceData&>(arena.data()).gpu().number() == place.device;
}

cuda::Uuid uuid_of(const DeviceId& device) noexcept { return std::bit_cast<cuda::Uuid>(device); }

// Room for all memory of the machine: address space costs nothing until it is used. A process with
// a limit on it gets a share; a tensor larger than that, an arena of its own.
Geometry geometry_for(std::uint64_t size, Strategy strategy) {
  Geometry geometry;
  if (strategy == Strategy::device || strategy == Strategy::in_place) {
    geometry.data_reserve = 64 * kMiB;  // of what little lies on the host
    return geometry;
  }
  std::uint64_t reserve = std::clamp(std::bit_ceil(physical_memory()), kGiB, kLargestReserve);
  if (const std::uint64_t limit = address_space_limit(); limit != kUnlimited) {
    reserve = std::clamp(align_down(limit / 16, kExtent), 16 * kMiB, reserve);
    geometry.max_blocks = std::uint32_t{1} << 16;
  }
  geometry.data_reserve = std::max(reserve, align_up(size + kExtent, kExtent));
  return geometry;
}

}  // namespace

Session::Session(std::unique_ptr<SessionMemory> memory, Connection line, SlotNumber slot,
                 std::uint32_t life, const Settings& settings, Budget& budget)
    : memory_(std::move(memory)),
      member_(*memory_, slot),
      life_(life),
      settings_(settings),
      budget_(budget),
      line_(std::move(line)) {}

std::unique_ptr<Session> Session::connect(const SessionId& id, Join join, const Settings& settings,
                                          Budget& budget) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Connection line = Connection::open(id, settings.program);
    if (!line) return nullptr;
    Message hello = make_message(Kind::hello, id);
    hello.join = join;
    hello.parent = settings.parent;
    std::optional<Reply> reply = line.ask(hello);
    if (!reply) continue;  // it was just leaving, or was killed
    if (reply->message.kind == Kind::unknown) return nullptr;
    auto memory = SessionMemory::open(id, std::move(reply->fd));
    memory->know_manager();
    return std::unique_ptr<Session>(new Session(std::move(memory), std::move(line),
                                                static_cast<SlotNumber>(reply->message.slot),
                                                reply->message.life, settings, budget));
  }
  throw SessionError("the manager of session " + id.hex() + " ends as soon as it is asked");
}

Reply Session::ask(Message message, const Fd* fd) {
  const std::lock_guard guard(line_mutex_);
  member_.require_slot();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!line_) reconnect();
    if (std::optional<Reply> reply = line_.ask(message, fd)) return std::move(*reply);
  }
  throw SessionError("the manager of session " + id().hex() + " ends as soon as it is asked");
}

// The manager was killed, or our line to it was closed. Whoever serves now is told all that this
// process knows: the session's memory and every arena of which it has a descriptor.
void Session::reconnect() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    line_ = Connection::open(id(), settings_.program);
    Message hello = make_message(Kind::hello, id());
    hello.slot = member_.slot();
    hello.life = life_;
    SHMTENSOR_FAULT_POINT("session.reconnect");
    const std::optional<Reply> reply = line_.ask(hello, memory_->file_or_null());
    if (!reply) continue;
    if (reply->message.kind != Kind::welcome) break;
    memory_->know_manager();
    for (Arena* arena : pin_all()) {
      if (line_) send_registration(*arena);
      arena->unpin();
    }
    if (line_) return;
  }
  throw SessionError("session " + id().hex() + " cannot be taken up again");
}

void Session::follow_manager() noexcept {
  if (!memory_->manager_changed() || member_.lost()) return;
  try {
    const std::lock_guard guard(line_mutex_);
    if (!memory_->manager_changed()) return;  // another thread was quicker
    line_.close();
    reconnect();
  } catch (const std::exception& error) {
    memory_->accept_manager();  // not again at every send
    report(std::string("no manager keeps what was sent should this process end: ") + error.what());
  }
}

void Session::send_registration(const Arena& arena) {
  const Segment& segment = arena.segment();
  Message message = make_message(Kind::register_arena, id());
  message.arena = segment.number();
  message.strategy = static_cast<std::uint32_t>(segment.strategy());
  const bool named = segment.strategy() == Strategy::file_system;
  if (!named && !segment.keeps_descriptor()) return;  // its owner, or /proc, will tell
  // The manager may have dropped it, name and all, when its last block was freed.
  if (named && segment.header().orphaned.load() != 0) return;
  try {
    const Segment::File file = segment.file();
    static_cast<void>(line_.ask(message, named ? nullptr : &*file));
    if (segment.strategy() == Strategy::device) {
      message.kind = Kind::keep_chunk;
      static_cast<const cuda::DeviceData&>(arena.data())
          .for_each_descriptor([&](std::uint32_t chunk, std::uint64_t size, int number) {
            message.chunk = chunk;
            message.number = size;
            Fd borrowed(number);
            if (line_) static_cast<void>(line_.ask(message, &borrowed));
            static_cast<void>(borrowed.release());
          });
    }
  } catch (const OsError& error) {
    // A named arena whose owner is dead, dropped when nothing in it was in use any more.
    if (error.code() != ENOENT) throw;
  } catch (const Error& error) {
    report("an arena could not be registered again: " + std::string(error.what()));
  }
}

std::optional<Block> Session::allocate_warm(std::uint64_t size, Place place) {
  Arena* arena = current_[index_of(place)].load(std::memory_order_acquire);
  if (arena == nullptr || !is_on(*arena, place)) return std::nullopt;
  const std::optional<BlockNumber> number = arena->allocate_warm(size);
  if (!number) return std::nullopt;
  return Block{arena, *number};
}

Block Session::allocate(std::uint64_t size, Place place) {
  // Growing on a device tells the manager, with the arena locked; the line is locked before arenas.
  std::unique_lock line(line_mutex_, std::defer_lock);
  if (place.strategy == Strategy::device) line.lock();
  const auto attempt = [&]() -> std::optional<Block> {
    for (Arena* arena : own_arenas(place)) {
      if (const auto number = arena->allocate(size)) {
        current_[index_of(place)].store(arena, std::memory_order_release);
        return Block{arena, *number};
      }
    }
    return std::nullopt;
  };
  std::optional<Block> block;
  try {
    block = attempt();
  } catch (const OutOfMemory&) {
    // Memory may hang on dead processes that nobody noticed because the manager was killed: asking
    // it anything starts another one, which looks. Spends no ticket.
    spend_tickets(kUnlimited);
    try {
      block = attempt();
    } catch (const OutOfMemory&) {
      // The arenas tried have given their idle pages back; now the others on the host do.
      for (Arena* arena : own_arenas()) {
        const bool on_host = arena->segment().strategy() != Strategy::device;
        if (on_host && !is_on(*arena, place)) arena->collect(0);
      }
      drop_unused_orphans();
      block = attempt();
    }
  }
  if (block) return *block;
  if (place.strategy != Strategy::device) {
    if (const std::string shortage = shortage_of(size, budget_); !shortage.empty()) {
      throw OutOfMemory("cannot share " + std::to_string(size) + " bytes: " + shortage);
    }
  }
  Arena& arena = make_arena(size, place);
  if (const auto number = arena.allocate(size)) return {&arena, *number};
  throw OutOfMemory("cannot share " + std::to_string(size) + " bytes: no arena can hold them");
}

std::vector<Arena*> Session::pin_all() {
  std::vector<Arena*> all;
  const std::lock_guard guard(registry_lock_);
  for (auto& [number, arena] : arenas_) {
    arena->pin();
    all.push_back(arena.get());
  }
  return all;
}

std::vector<Arena*> Session::own_arenas() {
  std::vector<Arena*> found;
  const std::lock_guard guard(registry_lock_);
  for (auto& [number, arena] : arenas_) {
    if (arena->owned()) found.push_back(arena.get());
  }
  return found;
}

std::vector<Arena*> Session::own_arenas(Place place) {
  std::vector<Arena*> found = own_arenas();
  std::erase_if(found, [place](const Arena* arena) { return !is_on(*arena, place); });
  return found;
}

Arena& Session::make_arena(std::uint64_t size, Place place) {
  member_.require_slot();
  const Strategy strategy = place.strategy;
  DeviceId device{};
  if (strategy == Strategy::device) {
    device = std::bit_cast<DeviceId>(cuda::Gpu::get(place.device).uuid());
  }
  const ArenaNumber number = memory_->new_arena_number();
  auto segment = Segment::create(id(), number, member_.slot(), life_, strategy,
                                 geometry_for(size, strategy), device);
  SHMTENSOR_FAULT_POINT("register.before");
  Message message = make_message(Kind::register_arena, id());
  message.arena = number;
  message.strategy = static_cast<std::uint32_t>(strategy);
  try {
    const Segment::File file = segment->file();
    ask(message, strategy == Strategy::file_system ? nullptr : &*file);
  } catch (...) {
    if (strategy == Strategy::file_system) unlink_shm(arena_name(id(), number));
    throw;
  }
  SHMTENSOR_FAULT_POINT("register.after");
  Arena* arena = add(std::move(segment), true);
  arena->unpin();
  current_[index_of(place)].store(arena, std::memory_order_release);
  return *arena;
}

// Pinned.
Arena* Session::add(std::unique_ptr<Segment> segment, bool owned) {
  const ArenaNumber number = segment->number();
  auto made = make(std::move(segment), owned);
  const std::lock_guard guard(registry_lock_);
  // Another thread may have been quicker; then its arena is used and this one dropped.
  Arena* arena = arenas_.try_emplace(number, std::move(made)).first->second.get();
  arena->pin();
  return arena;
}

std::unique_ptr<Arena> Session::make(std::unique_ptr<Segment> segment, bool owned) {
  if (segment->strategy() != Strategy::device) {
    return std::make_unique<Arena>(std::move(segment), member_, owned ? &budget_ : nullptr);
  }
  const cuda::Gpu& gpu = cuda::Gpu::with_uuid(uuid_of(segment->header().device));
  auto data = std::make_unique<cuda::DeviceData>(*segment, gpu,
                                                 static_cast<cuda::ChunkKeeper&>(*this), owned);
  return std::make_unique<Arena>(std::move(segment), std::move(data), member_, owned);
}

void Session::keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
                   const Fd& descriptor) {
  Message message = make_message(Kind::keep_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  message.number = size;
  static_cast<void>(ask(message, &descriptor));
}

// A manager that took over from one that was killed learns of a chunk from the next message of a
// process that has it; so one that is not known yet is asked for again.
Fd Session::fetch(ArenaNumber arena, std::uint32_t chunk) {
  Message message = make_message(Kind::find_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  for (int attempt = 0; attempt < 40; ++attempt) {
    Reply reply = ask(message);
    if (reply.message.kind == Kind::done && reply.fd) return std::move(reply.fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw SessionError("cannot reach device memory of arena " + std::to_string(arena) +
                     ": the session's manager was killed, and the process that allocated the "
                     "memory has not been in touch with the new one; let that process send again");
}

void Session::drop(ArenaNumber arena, std::uint32_t chunk) {
  Message message = make_message(Kind::drop_chunk, id());
  message.arena = arena;
  message.chunk = chunk;
  static_cast<void>(ask(message));
}

Arena* Session::find(ArenaNumber number) noexcept {
  if (member_.lost()) return nullptr;  // `attach` says why
  const std::lock_guard guard(registry_lock_);
  const auto at = arenas_.find(number);
  if (at == arenas_.end()) return nullptr;
  at->second->pin();
  return at->second.get();
}

Arena* Session::attach(ArenaNumber number, Strategy strategy) {
  if (Arena* arena = find(number)) return arena;
  member_.require_slot();
  drop_unused_orphans();
  const auto gone = [&] {
    return StaleHandle("cannot use a tensor's handle: arena " + std::to_string(number) +
                       " of session " + id().hex() + " is gone, with all its tensors");
  };
  std::unique_ptr<Segment> segment;
  if (strategy == Strategy::file_system) {
    try {
      segment = Segment::open_named(id(), number);
    } catch (const OsError& error) {
      if (error.code() == ENOENT) throw gone();
      throw;
    }
  } else {
    const auto fetch = [this, number, gone] {
      Message message = make_message(Kind::find_arena, id());
      message.arena = number;
      Reply reply = ask(message);
      if (reply.message.kind == Kind::unknown || !reply.fd) throw gone();
      return std::move(reply.fd);
    };
    Fd file = fetch();
    const bool scarce = static_cast<std::uint64_t>(file.get()) > descriptor_limit() / 2;
    segment = Segment::open(id(), number, std::move(file));
    // The descriptor is kept to tell a new manager of the arena should this one and the owner be
    // killed, unless descriptors are scarce.
    if (scarce) segment->drop_descriptor(fetch);
  }
  segment->ensure_plane(member_.slot());
  return add(std::move(segment), false);
}

void Session::drop_unused_orphans() {
  std::vector<std::unique_ptr<Arena>> dropped;  // unmapped after the lock is given back
  const std::lock_guard guard(registry_lock_);
  for (auto at = arenas_.begin(); at != arenas_.end();) {
    const Arena& arena = *at->second;
    if (arena.owned() || arena.in_use() || arena.segment().header().orphaned.load() == 0) {
      ++at;
      continue;
    }
    dropped.push_back(std::move(at->second));
    at = arenas_.erase(at);
  }
}

Statistics Session::statistics() {
  return ask(make_message(Kind::statistics, id())).message.statistics;
}

std::uint64_t Session::spend_tickets(std::uint64_t older_than_milliseconds) {
  Message message = make_message(Kind::collect, id());
  message.number = older_than_milliseconds;
  return ask(message).message.number;
}

std::uint64_t Session::collect(std::uint64_t older_than_milliseconds) {
  const std::uint64_t spent = spend_tickets(older_than_milliseconds);
  {
    const std::lock_guard guard(line_mutex_);  // before arenas: see `allocate`
    for (Arena* arena : own_arenas()) arena->collect(0);
  }
  for (Arena* arena : pin_all()) {
    arena->data().drop_gone();
    arena->unpin();
  }
  drop_unused_orphans();
  return spent;
}

bool Session::in_use() noexcept {
  const std::lock_guard guard(registry_lock_);
  return std::any_of(arenas_.begin(), arenas_.end(), [](const auto& pair) {
    return pair.second->owned() || pair.second->in_use();
  });
}

Session::Usage Session::usage() noexcept {
  Usage usage;
  usage.descriptors = 2;  // the line and the session's memory
  usage.mappings = memory_->mapping_count();
  const std::lock_guard guard(registry_lock_);
  for (const auto& [number, arena] : arenas_) {
    ++usage.arenas;
    usage.reserved += arena->reserved();
    usage.descriptors +=
        (arena->segment().keeps_descriptor() ? 1 : 0) + arena->data().descriptor_count();
    usage.mappings += arena->segment().mapping_count();
  }
  return usage;
}

void Session::lock_for_fork() {
  line_mutex_.lock();
  forked_ = pin_all();
  for (Arena* arena : forked_) arena->lock_for_fork();
  member_.lock_for_fork();
}

void Session::prepare_child() {
  child_slot_ = kNoSlot;
  bool holds = false;
  for (const Arena* arena : forked_) {
    arena->wait_for_fork();
    holds = holds || (arena->survives_fork() && arena->holds_any());
  }
  if (!holds || member_.lost()) return;
  auto [ours, childs] = socket_pair();
  SHMTENSOR_FAULT_POINT("fork.before_slot");
  const Reply reply = ask(make_message(Kind::fork, id()), &ours);
  SHMTENSOR_FAULT_POINT("fork.before_bits");
  const auto slot = static_cast<SlotNumber>(reply.message.slot);
  for (Arena* arena : forked_) arena->hold_for_child(slot);
  child_line_ = std::move(childs);
  child_life_ = reply.message.life;
  child_slot_ = slot;
  SHMTENSOR_FAULT_POINT("fork.before_fork");
}

void Session::unlock_in_parent() noexcept {
  registry_lock_.unlock();
  child_line_.reset();
  member_.unlock_after_fork();
  for (Arena* arena : forked_) {
    arena->unlock_after_fork();
    arena->unpin();
  }
  forked_.clear();
  line_mutex_.unlock();
}

bool Session::unlock_in_child() noexcept {
  // An arena that another thread added meanwhile may be locked by that thread, which does not exist
  // here; nothing of it is held.
  for (auto& [number, arena] : arenas_) {
    if (std::find(forked_.begin(), forked_.end(), arena.get()) == forked_.end()) {
      static_cast<void>(arena.release());
    }
  }
  std::erase_if(arenas_, [](const auto& pair) { return pair.second == nullptr; });
  line_.close();
  settings_.parent = ::getppid();
  member_.become(child_slot_);
  for (auto& place : current_) place.store(nullptr);
  bool holds = false;
  for (Arena* arena : forked_) {
    holds = holds || (arena->survives_fork() && arena->holds_any());
    arena->disown();
    arena->unlock_after_fork();
    arena->unpin();
  }
  forked_.clear();
  if (child_slot_ != kNoSlot) {
    const ProcessIdentity self = this_process();
    SlotRecord& record = memory_->slot(child_slot_);
    record.start_time.store(self.start_time);
    record.pid.store(self.pid);
    SHMTENSOR_FAULT_POINT("fork.child");
    line_ = Connection(std::move(child_line_));
    line_.tell(make_message(Kind::child, id()));
    life_ = child_life_;
  } else if (holds) {
    report(
        "a process was forked while the session's manager could not be reached: the tensors it "
        "inherited are not protected");
  }
  registry_lock_.unlock();
  // A recursive mutex knows its owner by a thread id that is another one in the child.
  std::construct_at(&line_mutex_);
  return holds;
}

}  // namespace shmtensor
