#include "channel/queue_call.hpp"

#include <utility>

#include "base/error.hpp"
#include "queue/owner_lock.hpp"

namespace shmtensor {

QueueCall::~QueueCall() {
  if (locked_ != nullptr) OwnerLock(locked_->lock).unlock();
  if (ring_ && !ring_is_used_) ring_.set_contents({});
}

std::span<std::byte> QueueCall::map_ring(const NamedTicket& named, Strategy strategy) {
  Arena* const from = arena(kRing, named.arena, strategy);
  if (from == nullptr || named.block >= from->segment().capacity()) return {};
  return from->bytes(named.block, Access::read_write);
}

Arena* QueueCall::arena(Purpose purpose, ArenaNumber number, Strategy strategy) noexcept {
  PinnedArena& pinned = pinned_[purpose];
  if (!pinned || pinned->segment().number() != number) pinned = session_.find(number);
  if (!pinned) {
    missing_ = number;
    strategy_ = strategy;
    purpose_ = purpose;
  }
  return pinned.get();
}

bool QueueCall::can_use(Arena* arena, const NamedTicket& named, Access access) noexcept {
  if (arena == nullptr) return arena_is_gone(named.arena);
  if (is_on_device(arena->segment().strategy()) || named.block == block_ ||
      named.block >= arena->segment().capacity() ||
      arena->bytes_at_once(named.block, access).data() != nullptr) {
    return true;
  }
  missing_ = named.arena;
  purpose_ = kMessage;
  block_ = named.block;
  access_ = access;
  return false;
}

// A damaged record is noticed by the reader of the message, after it has been taken.
void QueueCall::map_missing() {
  PinnedArena& pinned = pinned_[purpose_];
  try {
    if (!pinned) pinned = session_.attach(missing_, strategy_);
    if (purpose_ == kMessage && block_ < pinned->segment().capacity()) {
      static_cast<void>(pinned->bytes(block_, access_));
    }
  } catch (const StaleHandle&) {
    gone_ = missing_;
  } catch (const SessionError&) {
    if (!pinned) throw;
  }
}

void QueueCall::make_ring() {
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
