#include "manager/server.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "manager/recovery.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "os/process.hpp"
#include "os/robust_word.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

// Tags of the poller: what kind of descriptor, and which.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kLine = 1;
constexpr std::uint64_t kProcess = 2;
constexpr std::uint64_t tag(std::uint64_t kind, std::uint64_t value) noexcept {
  return kind << 32 | value;
}

constexpr std::size_t kMaxLines = 4096;
constexpr std::size_t kMaxArenasPerSlot = 4096;
constexpr int kConnectionsAtOnce = 64;
constexpr int kOrphanMilliseconds = 100;
constexpr int kIdleMilliseconds = 250;
constexpr int kLookMilliseconds = 1'000;
constexpr int kLooksAtOnce = 8;

void reply(const Fd& socket, Message message, Kind kind, const Fd* fd = nullptr) {
  message.kind = kind;
  const int number = fd != nullptr ? fd->get() : -1;
  send_message(socket, std::as_bytes(std::span(&message, 1)),
               fd != nullptr ? std::span(&number, 1) : std::span<const int>(), Wait::never);
}

void refuse(const Fd& socket, Message message, const std::string& why) {
  message.set_text(why);
  reply(socket, message, Kind::refused);
}

bool is_socket(const Fd& fd) {
  struct stat info{};
  return ::fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

Server::Server(SessionId session, Fd listener)
    : session_(session),
      listener_(std::move(listener)),
      spare_(listener_.duplicate()),
      empty_since_(coarse_milliseconds()) {
  poller_.add(listener_, tag(kListener, 0));
}

// At an end in good order the kernel marks nothing, for the memory is unmapped by then. The arenas
// are closed after this, and nobody shall wait for that: the next manager may have the address.
Server::~Server() {
  if (memory_) memory_->header().manager.compare_exchange_strong(claimed_, 0);
  seats_.reset();
  memory_.reset();
  listener_.reset();
}

void Server::run() {
  while (!finished()) {
    for (const std::uint64_t ready : poller_.wait(timeout())) {
      const auto value = static_cast<std::uint32_t>(ready);
      switch (ready >> 32) {
        case kListener:
          accept_some();
          break;
        case kLine:
          serve(static_cast<int>(value));
          break;
        default:
          check_seat(static_cast<SlotNumber>(value));
      }
    }
    if (seats_) {
      seats_->for_each_taken([this](SlotNumber slot) {
        if (!(*seats_)[slot].pidfd) check_seat(slot);  // nothing wakes us for these
      });
      look_again();
    }
    directory_.tend_orphans();
  }
  // The session may live on without a word to this manager.
  if (!memory_ || seats_->taken() != 0) return;
  // Also names of which the maker was killed before it could register them.
  for (const std::string& name : list_shm(object_name(session_) + "-")) unlink_shm(name);
}

int Server::timeout() {
  if (directory_.unfinished()) return 0;
  if (directory_.has_orphans()) return kOrphanMilliseconds;
  if (!seats_ || !seats_->any_known()) return kIdleMilliseconds;
  bool all_watched = true;
  bool all_have_lines = true;
  seats_->for_each_taken([&](SlotNumber slot) {
    const Seats::Seat& seat = (*seats_)[slot];
    if (seat.unknown) return;  // there is nothing to look at
    all_watched = all_watched && seat.pidfd;
    all_have_lines = all_have_lines && seat.line >= 0;
  });
  if (!all_watched) return kIdleMilliseconds;
  return all_have_lines ? -1 : kLookMilliseconds;
}

// The session is over when nobody has been there for a moment and nobody who lives may still read a
// message of those who were. Of unknown processes this manager waits for none but to keep messages:
// one that lives has all else, and starts another manager.
bool Server::finished() {
  if (seats_ && seats_->any_known()) {
    empty_since_ = 0;
    return false;
  }
  const std::uint64_t now = coarse_milliseconds();
  if (empty_since_ == 0) empty_since_ = now;
  if (now - empty_since_ < static_cast<std::uint64_t>(kLinger.count())) return false;
  if (!memory_ || count_in_flight(*memory_) == 0) return true;
  return seats_->taken() == 0 && !seats_->has_living_parent();
}

// A connection that is not wanted closes, by which the client is told. Some at a time: others wait,
// too.
void Server::accept_some() {
  for (int i = 0; i < kConnectionsAtOnce; ++i) {
    Fd socket = accept_connection(listener_);
    if (!socket && !turn_away()) return;
    if (!socket || lines_.size() >= kMaxLines) continue;
    try {
      if (peer_credentials(socket).uid == ::geteuid()) add_line(std::move(socket));
    } catch (const Error&) {
      // It cannot be watched: closed as well.
    }
  }
}

int Server::add_line(Fd socket) {
  const int descriptor = socket.get();
  poller_.add(socket, tag(kLine, static_cast<std::uint32_t>(descriptor)));
  lines_[descriptor] = {std::move(socket), kNoSlot};
  return descriptor;
}

// Was one there that could not be accepted because no descriptor is left? It would wait, and wake
// this loop again and again. The spare descriptor makes room to accept and to close it.
bool Server::turn_away() {
  if ((errno != EMFILE && errno != ENFILE) || !spare_) return false;
  spare_.reset();
  static_cast<void>(accept_connection(listener_));
  spare_ = Fd(::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  return true;
}

void Server::serve(int descriptor) {
  const auto at = lines_.find(descriptor);
  if (at == lines_.end()) return;
  Message message;
  try {
    std::optional<Received> received = receive_message(
        at->second.socket, std::as_writable_bytes(std::span(&message, 1)), Wait::never);
    if (!received) return;
    if (received->size == 0) {
      drop_line(descriptor);
      return;
    }
    if (received->size != sizeof message || message.magic != kProtocolMagic ||
        message.version != kProtocolVersion || message.session != session_) {
      refuse(at->second.socket, {}, "the message makes no sense");
      drop_line(descriptor);
      return;
    }
    Fd fd;
    if (!received->fds.empty()) fd = std::move(received->fds.front());
    answer(at->second, message, std::move(fd), received->sender);
  } catch (const Error& error) {
    try {
      refuse(at->second.socket, message, error.what());
    } catch (const Error&) {
      drop_line(descriptor);  // it does not even listen
    }
  }
}

void Server::answer(Line& line, Message& message, Fd fd, pid_t sender) {
  if (message.kind == Kind::hello) return hello(line, message, std::move(fd));
  if (message.kind == Kind::child) return settle_child(line, sender);
  if (!memory_) return refuse(line.socket, message, "say hello first");
  switch (message.kind) {
    case Kind::statistics:
      message.statistics.processes = seats_->taken();
      message.statistics.in_flight = count_in_flight(*memory_);
      directory_.count(message.statistics);
      return reply(line.socket, message, Kind::done);
    case Kind::collect:
      message.number = directory_.collect(*memory_, message.number);
      directory_.tend_orphans();
      message.unfinished = directory_.unfinished() ? 1 : 0;
      return reply(line.socket, message, Kind::done);
    case Kind::register_arena:
      return register_arena(line, message, std::move(fd));
    case Kind::find_arena:
      return find_arena(line, message);
    case Kind::next_arena:
      return next_arena(line, message);
    case Kind::keep_chunk:
      return keep_chunk(line, message, std::move(fd));
    case Kind::find_chunk:
      return find_chunk(line, message);
    case Kind::drop_chunk:
      if (line.slot != kNoSlot) directory_.drop_chunk(message.arena, message.chunk);
      return reply(line.socket, message, Kind::done);
    case Kind::fork:
      return prepare_fork(line, std::move(fd));
    default:
      return refuse(line.socket, message, "the request is unknown");
  }
}

void Server::hello(Line& line, const Message& message, Fd fd) {
  if (line.slot != kNoSlot)
    return refuse(line.socket, message, "this connection has a slot already");
  const FileIdentity brought = fd ? fd.identity() : FileIdentity{};
  if (!memory_) find_or_start(message, std::move(fd));
  if (!memory_) return reply(line.socket, message, Kind::unknown);

  Message answer = message;
  if (message.join != Join::observe) {
    const pid_t pid = peer_credentials(line.socket).pid;
    const ProcessIdentity process{pid, start_time_of(pid)};
    Fd pidfd = peer_pidfd(line.socket);
    if (!pidfd && pid > 0) pidfd = open_pidfd(process);
    if (message.slot < kMaxSlots) {
      // A member that lost its connection, or whose manager was killed.
      const auto slot = static_cast<SlotNumber>(message.slot);
      Seats::Seat& old = (*seats_)[slot];
      const bool same =
          old.unknown ? brought == memory_->file().identity() : old.process.pid == pid;
      if (!old.taken || old.life != message.life || !same || old.line >= 0) {
        return refuse(line.socket, message, "this process was taken for dead");
      }
      line.slot = slot;
      old.line = line.socket.get();
      if (old.unknown) {
        seats_->settle(slot, process, std::move(pidfd));
        watch(slot);
      }
    } else {
      const auto slot = seats_->take(process, message.parent, std::move(pidfd), line.socket.get());
      if (!slot) return refuse(line.socket, message, "all 1024 slots of the session are taken");
      line.slot = *slot;
      watch(*slot);
    }
    answer.slot = line.slot;
    answer.life = (*seats_)[line.slot].life;
  }
  SHMTENSOR_FAULT_POINT("manager.before_welcome");
  reply(line.socket, answer, Kind::welcome, &memory_->file());
}

void Server::find_or_start(const Message& message, Fd fd) {
  if (fd) return adopt(SessionMemory::open(session_, std::move(fd)));
  if (auto recovered = recover_session(session_)) return adopt(std::move(recovered));
  if (message.join != Join::create) return;
  const TakeFile empty = [this](Fd file) { directory_.empty(std::move(file)); };
  sweep_names(false, empty);
  remove_names_of(session_,
                  empty);  // the sweep takes the session for alive: this manager serves it
  take_charge(SessionMemory::create(session_));
}

// The address keeps a second manager away in one network namespace only. The kernel marks the word
// of one that was killed before it gives the address free.
void Server::take_charge(std::unique_ptr<SessionMemory> memory) {
  if (memory->has_manager()) throw_lives_elsewhere();
  memory_ = std::move(memory);
  SessionHeader& header = memory_->header();
  header.manager_starts.fetch_add(1);
  claim_robust(header.manager);
  claimed_ = header.manager.load();
  seats_ = std::make_unique<Seats>(*memory_);
}

// A manager before this one was killed. What it knew lies in the session's memory and in the
// descriptors of the members; what it may have been doing is done again.
void Server::adopt(std::unique_ptr<SessionMemory> memory) {
  take_charge(std::move(memory));
  seats_->take_over();
  SHMTENSOR_FAULT_POINT("manager.adopt");
  for (auto& segment : recover_arenas(session_)) add_arena(std::move(segment));
  seats_->for_each_taken([this](SlotNumber slot) { watch(slot); });
  memory_->header().deaths.fetch_add(1);
  directory_.tell_owners();
}

void Server::register_arena(const Line& line, const Message& message, Fd fd) {
  if (line.slot == kNoSlot) return refuse(line.socket, message, "say hello first");
  if (directory_.owned_by(line.slot) >= kMaxArenasPerSlot) {
    return refuse(line.socket, message, "this process has too many arenas");
  }
  if (directory_.find(message.arena) == nullptr) {
    auto segment = fd ? Segment::open(session_, message.arena, std::move(fd))
                      : Segment::open_named(session_, message.arena);
    SHMTENSOR_FAULT_POINT("manager.register");
    add_arena(std::move(segment));
  }
  reply(line.socket, message, Kind::done);
}

void Server::add_arena(std::unique_ptr<Segment> segment) {
  const ArenaHeader& header = segment->header();
  const Seats::Seat& owner = (*seats_)[static_cast<SlotNumber>(header.owner)];
  directory_.add(std::move(segment), owner.taken && owner.life == header.owner_life, *memory_,
                 seats_->unused());
}

void Server::find_arena(const Line& line, const Message& message) {
  if (line.slot == kNoSlot) return refuse(line.socket, message, "say hello first");
  const Segment* segment = directory_.find(message.arena);
  if (segment == nullptr) return reply(line.socket, message, Kind::unknown);
  Message answer = message;
  answer.strategy = static_cast<std::uint32_t>(segment->strategy());
  if (segment->strategy() == Strategy::file_system) return reply(line.socket, answer, Kind::done);
  const Segment::File file = segment->file();
  reply(line.socket, answer, Kind::done, &*file);
}

// Also for who only looks on.
void Server::next_arena(const Line& line, const Message& message) {
  const Segment* segment = directory_.after(message.arena);
  if (segment == nullptr) return reply(line.socket, message, Kind::unknown);
  const ArenaHeader& header = segment->header();
  Message answer = message;
  answer.arena = segment->number();
  answer.strategy = static_cast<std::uint32_t>(segment->strategy());
  answer.slot = header.orphaned.load() != 0 ? kNoSlot : header.owner;
  answer.statistics = {};
  Directory::count(*segment, answer.statistics);
  reply(line.socket, answer, Kind::done);
}

void Server::keep_chunk(const Line& line, const Message& message, Fd fd) {
  if (line.slot == kNoSlot) return refuse(line.socket, message, "say hello first");
  if (!fd || message.chunk >= kMaxChunks ||
      !directory_.keep_chunk(message.arena, message.chunk, std::move(fd))) {
    return refuse(line.socket, message, "there is no arena for that chunk");
  }
  reply(line.socket, message, Kind::done);
}

// A manager that took over knows only what members have told it since. The owner is not made to
// speak: its descriptor is taken, where the system allows that.
void Server::find_chunk(const Line& line, const Message& message) {
  if (line.slot == kNoSlot) return refuse(line.socket, message, "say hello first");
  const Fd* descriptor = directory_.find_chunk(message.arena, message.chunk);
  const Segment* segment = directory_.find(message.arena);
  if (descriptor == nullptr && segment != nullptr && message.chunk < kMaxChunks &&
      segment->chunk(message.chunk).size.load() != 0) {
    const ArenaHeader& header = segment->header();
    const Seats::Seat& owner = (*seats_)[static_cast<SlotNumber>(header.owner)];
    if (owner.taken && owner.life == header.owner_life && owner.pidfd) {
      Fd taken = take_descriptor(owner.pidfd, segment->chunk(message.chunk).descriptor.load());
      if (taken) directory_.keep_chunk(message.arena, message.chunk, std::move(taken));
      descriptor = directory_.find_chunk(message.arena, message.chunk);
    }
  }
  if (descriptor == nullptr) return reply(line.socket, message, Kind::unknown);
  reply(line.socket, message, Kind::done, descriptor);
}

void Server::prepare_fork(const Line& line, Fd fd) {
  Message message;
  message.session = session_;
  if (line.slot == kNoSlot) return refuse(line.socket, message, "say hello first");
  if (!is_socket(fd)) return refuse(line.socket, message, "a fork needs a socket");
  ask_for_sender(fd);
  if (lines_.size() >= kMaxLines) return refuse(line.socket, message, "it has too many lines");
  // Before the child gets a seat: a line without one is like a newcomer's, and may stay.
  const int descriptor = add_line(std::move(fd));
  const auto slot = seats_->take_for_child((*seats_)[line.slot].process.pid, descriptor);
  if (!slot) return refuse(line.socket, message, "all 1024 slots of the session are taken");
  lines_[descriptor].slot = *slot;
  message.slot = *slot;
  message.life = (*seats_)[*slot].life;
  SHMTENSOR_FAULT_POINT("manager.before_fork_reply");
  reply(line.socket, message, Kind::done);
}

void Server::settle_child(const Line& line, pid_t sender) {
  if (line.slot == kNoSlot || !(*seats_)[line.slot].forking) return;
  const ProcessIdentity child{sender, start_time_of(sender)};
  seats_->settle(line.slot, child, open_pidfd(child));
  watch(line.slot);
}

void Server::watch(SlotNumber slot) {
  Seats::Seat& seat = (*seats_)[slot];
  try {
    if (seat.pidfd) poller_.add(seat.pidfd, tag(kProcess, slot));
  } catch (const Error&) {
    seat.pidfd.reset();  // as on a kernel without them
  }
}

// The open file lives on in whoever has another descriptor of it, and would be watched there.
void Server::close_line(int descriptor) noexcept {
  const auto at = lines_.find(descriptor);
  if (at == lines_.end()) return;
  poller_.remove(at->second.socket);
  lines_.erase(at);
}

void Server::drop_line(int descriptor) {
  const SlotNumber slot = lines_.at(descriptor).slot;
  close_line(descriptor);
  if (slot == kNoSlot) return;
  Seats::Seat& seat = (*seats_)[slot];
  seat.line = -1;
  seat.forking = false;  // nobody is left who could be that child
  if (seats_->has_ended(slot) || seats_->has_forgotten(slot)) vacate(slot);
}

void Server::check_seat(SlotNumber slot) {
  if (!seats_ || !(*seats_)[slot].taken) return;
  const bool watched = static_cast<bool>((*seats_)[slot].pidfd);
  if (seats_->has_ended(slot)) return vacate(slot);
  if (!watched) watch(slot);  // a forked child may have said who it is
}

// Nothing tells when a process that lives and has no line lets go of the session: one that closed
// its descriptors, or that has said nothing since a manager before this one was killed. Some at a
// time: a look reads all mappings of the process.
void Server::look_again() {
  const std::uint64_t now = coarse_milliseconds();
  if (now - looked_at_ < static_cast<std::uint64_t>(kLookMilliseconds)) return;
  looked_at_ = now;
  int looks = 0;
  for (SlotNumber i = 0; i < kMaxSlots && looks < kLooksAtOnce; ++i) {
    looked_until_ = static_cast<SlotNumber>((looked_until_ + 1) % kMaxSlots);
    const Seats::Seat& seat = (*seats_)[looked_until_];
    if (!seat.taken || seat.forking || seat.unknown || seat.line >= 0) continue;
    ++looks;
    if (seats_->has_forgotten(looked_until_)) vacate(looked_until_);
  }
}

void Server::vacate(SlotNumber slot) {
  close_line((*seats_)[slot].line);
  directory_.sweep(*memory_, slot);
  SHMTENSOR_FAULT_POINT("manager.before_vacate");
  seats_->vacate(slot);
  // Owners compare their tables with their books when they see this move.
  memory_->header().deaths.fetch_add(1);
  directory_.tell_owners();
  // Last: who waits for the dead one's blocks has them by now.
  remove_unregistered(session_, [this](ArenaNumber arena) { return directory_.find(arena); });
}

}  // namespace shmtensor
