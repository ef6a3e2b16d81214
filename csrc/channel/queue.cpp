#include "channel/queue.hpp"

#include <cstring>

#include "base/error.hpp"
#include "channel/queue_call.hpp"
#include "os/fault_point.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

QueueHeader& header_of(const Block& block) {
  const std::span<std::byte> bytes = block.arena->bytes(block.number, Access::read_write);
  if (bytes.size() < sizeof(QueueHeader)) throw SessionError("not a queue: the block is too small");
  if (!is_aligned(bytes)) throw SessionError("not a queue: its block is not aligned");
  return *reinterpret_cast<QueueHeader*>(bytes.data());
}

}  // namespace

// The names of the records are cleared before the block is declared to contain them: the memory of
// a new block has the bytes of an earlier one.
void Queue::create(const Block& block, std::uint64_t limit) {
  QueueHeader& header = header_of(block);
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  header.limit.store(limit);
  header.magic.store(kQueueMagic);
  block.arena->set_contents(block.number, QueueHeader::contents());
}

Queue::Queue(Session& session, const Block& block)
    : session_(session),
      header_(header_of(block)),
      arena_(block.arena->segment().number()),
      block_(block.number) {
  if (header_.magic.load() != kQueueMagic) throw SessionError("not a queue of this version");
}

void Queue::throw_damaged() { throw SessionError("a queue is damaged: its counts are wrong"); }

Attempt Queue::try_put(const Outgoing& message, QueueCall& call) {
  call.ring_arena_ = &tail_arena_;
  const Attempt result = call.with_lock(header_.tail, [&] {
    SHMTENSOR_FAULT_POINT("queue.put_locked");
    const Attempt made = put_locked(message, call);
    SHMTENSOR_FAULT_POINT("queue.put_unlock");
    return made;
  });
  SHMTENSOR_FAULT_POINT("queue.put_notify");
  if (result == Attempt::done) WaitFlag(header_.getters).notify(1);
  return result;
}

Attempt Queue::try_take(Incoming& message, QueueCall& call) {
  call.ring_arena_ = &head_arena_;
  const Attempt result = call.with_lock(header_.head, [&] {
    SHMTENSOR_FAULT_POINT("queue.take_locked");
    const Attempt made = take_locked(message, call);
    SHMTENSOR_FAULT_POINT("queue.take_unlock");
    return made;
  });
  SHMTENSOR_FAULT_POINT("queue.take_notify");
  if (result == Attempt::done) WaitFlag(header_.putters).notify(1);
  return result;
}

Attempt Queue::try_count_taken(std::uint64_t& taken, QueueCall& call) {
  return call.with_lock(header_.head, [&] {
    taken = header_.head.count.load();
    return Attempt::done;
  });
}

std::uint64_t Queue::size() const noexcept {
  // The head is read first: the difference is never negative, and exact if no process acts.
  const std::uint64_t head = header_.head.count.load();
  return header_.tail.count.load() - head;
}

bool Queue::task_done() noexcept {
  std::uint64_t done = header_.done.load();
  do {
    if (done >= header_.tail.count.load()) return false;
  } while (!header_.done.compare_exchange_weak(done, done + 1));
  if (all_done()) WaitFlag(header_.joiners).wake_everyone();
  return true;
}

// With the lock, so that no message is put after another process has seen that the queue is shut
// down and empty. If its owner is stopped, the queue is shut down all the same.
void Queue::shut_down() {
  session_.require_slot();
  OwnerLock lock(header_.tail.lock);
  const bool locked = lock.lock_within(session_.slot(), QueueCall::kLockSlice);
  header_.stage.store(QueueStage::shut_down);
  if (locked) lock.unlock();
  for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
    WaitFlag(header_.waiters(event)).wake_everyone();
    if (WatchFlag(header_.watch(event)).is_used()) {
      static_cast<void>(session_.wake_watchers({.arena = arena_, .block = block_, .event = event}));
    }
  }
}

}  // namespace shmtensor
