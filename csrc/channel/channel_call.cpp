#include "channel/channel_call.hpp"

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "os/process.hpp"
#include "os/process_stat.hpp"
#include "queue/owner_lock.hpp"

namespace shmtensor {

ChannelCall::~ChannelCall() { unlock(); }

void ChannelCall::unlock() noexcept {
  if (locked_ != nullptr) OwnerLock(std::exchange(locked_, nullptr)->lock).unlock();
}

// The manager takes the lock from a dead process before the slot is unused.
void ChannelCall::lock_if_possible(QueueEnd& end) {
  session_.require_slot();
  session_.manager().ensure();
  end_ = &end;
  OwnerLock lock(end.lock);
  if (lock.try_lock_briefly(session_.slot())) {
    locked_ = end_;
  } else if (!is_damaged(lock)) {
    wait_for_lock(kLockSlice);
  }
}

bool ChannelCall::is_damaged(OwnerLock lock) const noexcept {
  const std::uint32_t owner = lock.owner();
  if (owner == OwnerLock::kNone) return false;
  return owner >= kMaxSlots || !is_in(session_.memory().slot(SlotNumber(owner)).status.load());
}

bool ChannelCall::owner_is_stopped() const noexcept {
  const std::uint32_t owner = end_ == nullptr ? OwnerLock::kNone : OwnerLock(end_->lock).owner();
  if (owner == OwnerLock::kNone) return false;
  if (owner >= kMaxSlots) return true;
  const SlotRecord& record = session_.memory().slot(SlotNumber(owner));
  const ProcessStat stat = read_stat(record.pid.load());
  return record.pid_namespace.load() != pid_namespace() ||
         stat.start_time != record.start_time.load() ||
         std::string_view("RSD").find(stat.state) == std::string_view::npos;
}

// A producer that saw the open queue has the lock, unless it has counted its message. One that
// takes the lock later synchronizes with this process, which a load of the lock would not ensure,
// and sees the shutdown.
std::optional<Attempt> ChannelCall::at_end(QueueEnd& tail, std::uint64_t count) const noexcept {
  OwnerLock lock(tail.lock);
  if (lock.try_lock_briefly(session_.slot())) {
    lock.unlock();
  } else if (!is_damaged(lock)) {
    return Attempt::ending;
  }
  return tail.count.load() == count ? std::optional(Attempt::shut_down) : std::nullopt;
}

bool ChannelCall::lock_within(QueueEnd& end, std::chrono::nanoseconds time) {
  if (OwnerLock(end.lock).lock_within(session_.slot(), std::min(time, kLockSlice))) return true;
  session_.manager().ensure();
  return false;
}

void ChannelCall::wait_for_end(QueueEnd& tail, std::chrono::nanoseconds time) {
  end_ = &tail;
  if (lock_within(tail, time)) OwnerLock(tail.lock).unlock();
}

void ChannelCall::wait_for_lock(std::chrono::nanoseconds time) {
  if (lock_within(*end_, time)) locked_ = end_;
}

std::span<std::byte> ChannelCall::map_ring(const NamedTicket& named, Strategy strategy) {
  if (arena_is_gone(named.arena)) return {};
  Arena* const from = find(*ring_arena_, named.arena, strategy);
  if (from == nullptr) return {};
  if (named.block >= from->segment().capacity()) {
    throw SessionError("a queue is damaged: the block of a ring does not exist");
  }
  return from->bytes(named.block, Access::read_write);
}

Arena* ChannelCall::find(PinnedArena& pin, ArenaNumber number, Strategy strategy) noexcept {
  if (!pin || pin->segment().number() != number) pin = session_.find(number);
  if (!pin && !arena_is_gone(number)) {
    missing_ = number;
    strategy_ = strategy;
  }
  return pin.get();
}

bool ChannelCall::can_use(Arena* arena, const NamedTicket& named, Access access) noexcept {
  if (arena == nullptr) return arena_is_gone(named.arena);
  const bool was_mapped = named.block == block_ && named.arena == block_arena_;
  if (was_mapped || is_on_device(arena->segment().strategy()) ||
      named.block >= arena->segment().capacity() ||
      arena->bytes_at_once(named.block, access).data() != nullptr) {
    return true;
  }
  block_arena_ = named.arena;
  block_ = named.block;
  access_ = access;
  return false;
}

bool ChannelCall::can_cancel(const MessageEntry& entry) {
  const std::optional<NamedTicket> named = entry.ticket.read();
  if (!named || !session_.memory().is_live(*named)) return true;
  const auto strategy = static_cast<Strategy>(entry.strategy.load());
  return arena(named->arena, strategy) != nullptr || arena_is_gone(named->arena);
}

// A ticket that is not live any more was cancelled by a process that also tries to free the block.
void ChannelCall::cancel(const MessageEntry& entry) noexcept {
  const std::optional<NamedTicket> named = entry.ticket.read();
  if (!named || !session_.memory().is_live(*named)) return;
  Arena* const from = arena(named->arena, static_cast<Strategy>(entry.strategy.load()));
  if (from != nullptr && named->block < from->segment().capacity()) {
    from->cancel_send(named->block, named->generation, named->ticket);
  } else {
    session_.memory().claim(*named);
  }
}

// A damaged record is noticed by the reader of the message, after it has been taken.
void ChannelCall::map_missing() {
  if (missing_) {
    try {
      attached_ = session_.attach(*missing_, strategy_);
    } catch (const StaleHandle&) {
      gone_.push_back(*missing_);
    }
    missing_.reset();
    return;
  }
  if (!pinned_ || block_ >= pinned_->segment().capacity()) return;
  try {
    static_cast<void>(pinned_->bytes(block_, access_));
  } catch (const SessionError&) {
    // can_use returns true for this block from now on
  } catch (const OsError& error) {
    // The name of an arena is removed when nothing in it is in use: another process has taken the
    // message.
    if (error.code() != ENOENT) throw;
  }
}

void ChannelCall::make_ring() {
  if (ring_) return;
  const std::uint64_t size = std::uint64_t{entries_} * sizeof(MessageEntry);
  HeldBlock ring(session_.allocate(size, Strategy::file_descriptor));
  const std::span<std::byte> bytes = ring->arena->bytes(ring->number, Access::read_write);
  for (std::uint32_t i = 0; i < entries_; ++i) {
    reinterpret_cast<MessageEntry*>(bytes.data())[i].ticket.clear();
  }
  ring.set_contents(ring_contents(entries_));
  ring_ = std::move(ring);
}

}  // namespace shmtensor
