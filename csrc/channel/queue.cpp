#include "channel/queue.hpp"

#include <cstring>

#include "base/error.hpp"
#include "channel/channel_call.hpp"
#include "os/fault_point.hpp"
#include "os/fork_mark.hpp"
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
void Queue::create(const Block& block, const QueueOptions& options) {
  const std::size_t size = bytes(options.redelivers);
  std::memset(bytes_of(block, size).data(), 0, size);
  QueueHeader& header = header_of(block);
  header.limit.store(options.limit);
  header.max_bytes.store(options.max_bytes);
  header.counts_copies.store(options.counts_copies ? 1 : 0);
  header.redelivers.store(options.redelivers ? 1 : 0);
  header.label = options.label;
  header.magic.store(kQueueMagic);
  const std::uint32_t kept = options.redelivers ? KeptMessages::kRecords : 0;
  block.arena->set_contents(block.number, QueueHeader::contents(kept));
}

Queue::Queue(Session& session, const Block& block)
    : session_(session),
      header_(header_of(block)),
      kept_(KeptMessages::in(block.arena->bytes(block.number, Access::read_write))),
      arena_(block.arena->segment().number()),
      block_(block.number) {
  if (header_.magic.load() != kQueueMagic) throw SessionError("not a queue of this version");
  if (header_.redelivers.load() != (kept_ ? 1u : 0u)) throw_damaged();
  if (!kept_) return;
  received_ = std::make_unique<decltype(received_)::element_type>();
  start_observing();
}

Queue::~Queue() {
  if (!kept_) return;
  stop_observing();
  return_of_all_threads();
}

void Queue::throw_damaged() { throw SessionError("a queue is damaged: its counts are wrong"); }

Attempt Queue::try_put(const Outgoing& message, ChannelCall& call) {
  if (is_closed()) return call.closed();
  call.ring_arena_ = &tail_arena_;
  const Attempt result = call.with_lock(header_.tail, [&] { return put_locked(message, call); });
  SHMTENSOR_FAULT_POINT("queue.put_notify");
  if (result != Attempt::done) return result;
  WaitFlag(header_.getters).notify(1);
  // A large message that was taken may have made room for several small ones.
  if (max_bytes() != 0 && !is_full()) WaitFlag(header_.putters).notify(1);
  return result;
}

Attempt Queue::try_take(Incoming& message, ChannelCall& call) {
  if (is_closed()) return call.closed();
  if (kept_) observe_this_thread();
  call.ring_arena_ = &head_arena_;
  const Attempt result = call.with_lock(header_.head, [&] { return take_locked(message, call); });
  SHMTENSOR_FAULT_POINT("queue.take_notify");
  if (result == Attempt::done && !is_full()) WaitFlag(header_.putters).notify(1);
  // `close` returns what it finds; what this thread received meanwhile, the thread returns.
  if (result == Attempt::done && kept_ && is_closed()) {
    message.block.reset();
    return_one(message.kept);
    return Attempt::closed;
  }
  return result;
}

Attempt Queue::try_count_taken(std::uint64_t& taken, ChannelCall& call) {
  if (is_closed()) return call.closed();
  return call.with_lock(header_.head, [&] {
    taken = header_.head.count.load();
    return Attempt::done;
  });
}

bool Queue::task_done() {
  if (kept_) {
    const std::optional<std::uint32_t> first = first_kept_here();
    if (first) complete(*first);
    return first.has_value();
  }
  std::uint64_t done = header_.done.load();
  while (done < header_.tail.count.load()) {
    if (header_.done.compare_exchange_weak(done, done + 1)) {
      wake_joiners();
      return true;
    }
  }
  return false;
}

// If the queue redelivers, a message is done when it is neither in a ring nor kept. It is kept
// before it is counted as taken, so it is found in one of the two. A consumer may put a message
// before it completes the one that it has: unless none was put meanwhile, one that was not found
// may be left.
bool Queue::all_done() const noexcept {
  const std::uint64_t tail = header_.tail.count.load();
  if (!kept_) return header_.done.load() >= tail;
  return header_.head.count.load() >= tail && !kept_.any() && header_.tail.count.load() == tail;
}

void Queue::wake_joiners() noexcept {
  WaitFlag flag(header_.joiners);
  if (flag.has_waiter() && all_done()) flag.wake_everyone();
}

// The flag is stored before the messages are returned and the waiters are woken: an attempt that
// does not find it has done before what is looked for here.
void Queue::close() noexcept {
  if (closed_.exchange(true) || is_raw_copy()) return;
  return_of_all_threads();
  for (Atomic<std::uint32_t>* word : {&header_.getters, &header_.putters, &header_.joiners}) {
    WaitFlag(*word).notify_everyone();
  }
  for (QueueWatch& watch : watches_) watch.end(session_);
}

// With the lock if it is free soon: then a producer that was stopped in the middle of a message
// does not delay the end.
void Queue::shut_down() {
  {
    ChannelCall call(session_);
    call.lock_if_possible(header_.tail);
    header_.stage.store(QueueStage::shut_down);
  }
  wake_everyone(QueueEvent::message);
  wake_everyone(QueueEvent::room);
}

}  // namespace shmtensor
