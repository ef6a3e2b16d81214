#include "channel/queue.hpp"

#include <cstring>

#include "base/error.hpp"
#include "channel/queue_call.hpp"
#include "os/fault_point.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

std::span<std::byte> bytes_of(const Block& block, std::size_t least) {
  const std::span<std::byte> bytes = block.arena->bytes(block.number, Access::read_write);
  if (bytes.size() < least) throw SessionError("not a queue: the block is too small");
  if (!is_aligned(bytes)) throw SessionError("not a queue: its block is not aligned");
  return bytes;
}

QueueHeader& header_of(const Block& block) {
  return *reinterpret_cast<QueueHeader*>(bytes_of(block, sizeof(QueueHeader)).data());
}

}  // namespace

// The names of the records are cleared before the block is declared to contain them: the memory of
// a new block has the bytes of an earlier one.
void Queue::create(const Block& block, std::uint64_t limit, bool redelivers) {
  const std::span<std::byte> memory = bytes_of(block, bytes(redelivers));
  std::memset(memory.data(), 0, bytes(redelivers));
  QueueHeader& header = header_of(block);
  header.limit.store(limit);
  header.redelivers.store(redelivers ? 1 : 0);
  header.magic.store(kQueueMagic);
  block.arena->set_contents(block.number,
                            QueueHeader::contents(redelivers ? KeptMessages::kRecords : 0));
}

Queue::Queue(Session& session, const Block& block)
    : session_(session),
      header_(header_of(block)),
      kept_(KeptMessages::in(block.arena->bytes(block.number, Access::read_write))),
      arena_(block.arena->segment().number()),
      block_(block.number) {
  if (header_.magic.load() != kQueueMagic) throw SessionError("not a queue of this version");
  if (header_.redelivers.load() != (kept_ ? 1u : 0u)) throw_damaged();
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

std::uint64_t Queue::waiting() const noexcept {
  // The head is read first: the difference is never negative, and exact if no process acts.
  const std::uint64_t head = header_.head.count.load();
  return header_.tail.count.load() - head;
}

// If a process is killed after it has counted a message and before it has completed it, the message
// is counted a second time by the process that receives it again.
bool Queue::task_done() {
  const std::optional<std::uint32_t> kept = first_kept_here();
  std::uint64_t done = header_.done.load();
  bool counted = false;
  while (!counted && done < header_.tail.count.load()) {
    counted = header_.done.compare_exchange_weak(done, done + 1);
  }
  if (counted && all_done()) WaitFlag(header_.joiners).wake_everyone();
  if (kept) complete(*kept);
  return counted || kept;
}

// With the lock, so that no message is put after another process has seen that the queue is shut
// down and empty. If its owner is stopped, the queue is shut down all the same.
void Queue::shut_down() {
  session_.require_slot();
  OwnerLock lock(header_.tail.lock);
  const bool locked = lock.lock_within(session_.slot(), QueueCall::kLockSlice);
  header_.stage.store(QueueStage::shut_down);
  if (locked) lock.unlock();
  tell_everyone(QueueEvent::message);
  tell_everyone(QueueEvent::room);
}

}  // namespace shmtensor
