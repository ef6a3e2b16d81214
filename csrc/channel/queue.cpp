#include "channel/queue.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "channel/queue_call.hpp"
#include "os/backoff.hpp"
#include "os/clock.hpp"
#include "os/fault_point.hpp"
#include "os/limits.hpp"
#include "queue/owner_lock.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

using std::chrono::nanoseconds;

// After this time a process that waits checks whether there is a manager: a killed one repairs
// nothing.
constexpr nanoseconds kSlice = std::chrono::seconds(1);
constexpr nanoseconds kLockSlice = std::chrono::milliseconds(100);
// An owner that runs unlocks in this many turns.
constexpr int kLockTurns = 20;
constexpr std::uint64_t kGrowth = 4;
constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 31;  // of a ring

// Any process of the session can write to the memory of a queue, so a number in it may be wrong.
[[noreturn]] void throw_damaged() {
  throw SessionError("a queue is damaged: its counts are wrong");
}

QueueHeader& header_of(const Block& block) {
  const std::span<std::byte> bytes = block.arena->bytes(block.number, Access::read_write);
  if (bytes.size() < sizeof(QueueHeader)) throw SessionError("not a queue: the block is too small");
  if (!is_aligned(bytes)) throw SessionError("not a queue: its block is not aligned");
  return *reinterpret_cast<QueueHeader*>(bytes.data());
}

Access access_of(const MessageEntry& entry) noexcept {
  const Access access = entry.access.load(std::memory_order_relaxed);
  return access == Access::read_only ? Access::read_only : Access::read_write;
}

bool try_lock(QueueEnd& end, SlotNumber slot) noexcept {
  OwnerLock lock(end.lock);
  Backoff backoff;
  for (int turn = 0; turn < kLockTurns; ++turn) {
    if (lock.try_lock(slot)) return true;
    backoff.pause();
  }
  return false;
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

template <typename Change>
Attempt Queue::with_lock(QueueEnd& end, QueueCall& call, Change&& change) {
  session_.require_slot();
  call.end_ = &end;
  if (call.locked_ == nullptr && !try_lock(end, session_.slot())) return Attempt::locked;
  call.locked_ = nullptr;
  const OwnerLockGuard guard(OwnerLock(end.lock));
  end.processor.store(present_processor(), std::memory_order_relaxed);
  return change();
}

Attempt Queue::try_put(const Outgoing& message, QueueCall& call) {
  call.ring_arena_ = &tail_arena_;
  const Attempt result = with_lock(header_.tail, call, [&] {
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
  const Attempt result = with_lock(header_.head, call, [&] {
    SHMTENSOR_FAULT_POINT("queue.take_locked");
    const Attempt made = take_locked(message, call);
    SHMTENSOR_FAULT_POINT("queue.take_unlock");
    return made;
  });
  SHMTENSOR_FAULT_POINT("queue.take_notify");
  if (result == Attempt::done) WaitFlag(header_.putters).notify(1);
  return result;
}

// The ticket is named in the entry before it is issued, and the count of messages commits both.
Attempt Queue::put_locked(const Outgoing& message, QueueCall& call) {
  if (is_shut_down()) return Attempt::shut_down;
  const std::uint64_t tail = header_.tail.count.load();
  const std::uint64_t head = header_.head.count.load();
  if (limit() != 0 && tail - head >= limit()) return Attempt::full;
  const std::uint32_t number = header_.tail.ring.load();
  const RingRecord& record = header_.ring(number);
  Ring ring = ring_at(header_, number, call);
  const bool is_gone = !ring && call.is_gone(record);
  if (!ring && !is_gone) return Attempt::unmapped;
  const bool is_full = is_gone || tail - std::max(head, ring.start()) >= ring.room();
  const bool next_is_free = number + 1 - header_.head.ring.load() < QueueHeader::kRings;
  if (is_full && !next_is_free) return Attempt::full;
  if (is_full && !call.ring_) {
    const std::uint64_t entries = is_gone ? QueueHeader::kFirstRing : ring.room() + 1;
    call.entries_ = static_cast<std::uint32_t>(std::min(entries * kGrowth, kMostEntries));
    return Attempt::ring;
  }
  // After a rush, the empty queue uses the small ring in its first block again, and the large one
  // is freed by the next process that takes a message.
  const bool returns = !is_full && head == tail && next_is_free && ring.begins_at(tail) &&
                       tail != ring.start() && record.ticket.read();
  if (is_full || returns) {
    begin_ring(number + 1, tail, is_full ? &call.ring_ : nullptr);
    if (is_full) call.used_ring_ = std::move(call.ring_);
    ring = ring_at(header_, number + 1, call);
    if (!ring) throw_damaged();
  }
  MessageEntry& entry = ring.entry(tail);
  if (entry.ticket.name.load(std::memory_order_relaxed) != 0) entry.ticket.clear();
  entry.kind.store(message.kind, std::memory_order_relaxed);
  entry.size.store(static_cast<std::uint16_t>(message.content.size()), std::memory_order_relaxed);
  std::memcpy(entry.content.data(), message.content.data(), message.content.size());
  if (message.block.arena != nullptr) {
    const auto strategy = message.block.arena->segment().strategy();
    entry.strategy.store(static_cast<std::uint8_t>(strategy), std::memory_order_relaxed);
    entry.access.store(message.access, std::memory_order_relaxed);
    static_cast<void>(message.block.arena->send(message.block.number, entry.ticket));
  }
  SHMTENSOR_FAULT_POINT("queue.put_count");
  header_.tail.count.store(tail + 1);
  tell_watchers(QueueEvent::message);
  return Attempt::done;
}

// A ring without a block is the small one in the queue's first block.
void Queue::begin_ring(std::uint32_t number, std::uint64_t start, const HeldBlock* block) {
  RingRecord& record = header_.ring(number);
  record.ticket.clear();
  record.start.store(start);
  if (block != nullptr) {
    record.strategy.store((*block)->arena->segment().strategy());
    static_cast<void>((*block)->arena->send((*block)->number, record.ticket));
  }
  SHMTENSOR_FAULT_POINT("queue.ring_count");
  header_.tail.ring.store(number);
}

// A message whose ticket is consumed was taken by a process that was killed before it counted it.
//
// The stage is read before the count: what was put before the shutdown is taken after it. The count
// is read before the rings: a producer that begins a ring counts the first message there last, so
// the ring of a message that was counted is known.
Attempt Queue::take_locked(Incoming& message, QueueCall& call) {
  for (;;) {
    const bool stopped = is_shut_down();
    const std::uint64_t head = header_.head.count.load();
    const std::uint64_t tail = header_.tail.count.load();
    if (const Attempt lack = retire_rings(call, head); lack != Attempt::done) return lack;
    SHMTENSOR_FAULT_POINT("queue.take_rings");
    if (head == tail) return stopped ? Attempt::shut_down : Attempt::empty;
    const std::uint32_t number = header_.head.ring.load();
    const bool last = number == header_.tail.ring.load();
    const std::uint64_t end = last ? tail : header_.ring(number + 1).start.load();
    const Ring ring = ring_at(header_, number, call);
    if (!ring) {
      if (!call.is_gone(header_.ring(number))) return Attempt::unmapped;
      count_taken(end);
      WaitFlag(header_.putters).wake_everyone();
      throw_lost(call.gone_.back());
    }
    if (end - head > ring.room()) throw_damaged();
    const MessageEntry& entry = ring.entry(head);
    const std::optional<NamedTicket> named = entry.ticket.read();
    message.kind = entry.kind.load(std::memory_order_relaxed);
    message.size =
        std::min<std::uint32_t>(entry.size.load(std::memory_order_relaxed), MessageEntry::kContent);
    std::memcpy(message.content.data(), entry.content.data(), message.size);
    bool taken = !named;
    if (named) {
      const auto strategy = static_cast<Strategy>(entry.strategy.load(std::memory_order_relaxed));
      message.access = access_of(entry);
      Arena* const arena = call.arena(named->arena, strategy);
      if (!call.can_use(arena, *named, message.access)) return Attempt::unmapped;
      taken = arena != nullptr && claim(*named, *arena);
      if (taken) message.block = HeldBlock({arena, named->block});
    }
    SHMTENSOR_FAULT_POINT("queue.take_count");
    count_taken(head + 1);
    if (taken) return Attempt::done;
    WaitFlag(header_.putters).notify(1);
    if (named && call.arena_is_gone(named->arena)) {
      if (named->ticket.sender < kMaxSlots) {
        session_.memory().transit(named->ticket.sender).claim(*named);
      }
      throw_lost(named->arena);
    }
  }
}

void Queue::count_taken(std::uint64_t head) noexcept {
  header_.head.count.store(head);
  tell_watchers(QueueEvent::room);
}

bool Queue::claim(const NamedTicket& named, Arena& arena) {
  if (named.block >= arena.segment().capacity() || named.ticket.sender >= kMaxSlots) return false;
  TransitTable& transit = session_.memory().transit(named.ticket.sender);
  bool taken = false;
  {
    LocalTable::Lock lock(arena.local(), named.block);
    taken = arena.take(lock, named, transit);
  }
  if (!taken) arena.unpin_and_try_free(named.block);
  return taken;
}

// All messages of the oldest ring were taken. Each step may be repeated: a ticket that is consumed
// keeps nothing, so the block may be another one by then, but an attempt to free it does no harm.
Attempt Queue::retire_rings(QueueCall& call, std::uint64_t head) {
  for (;;) {
    const std::uint32_t number = header_.head.ring.load();
    if (header_.tail.ring.load() - number >= QueueHeader::kRings) throw_damaged();
    if (number == header_.tail.ring.load() || header_.ring(number + 1).start.load() != head) {
      return Attempt::done;
    }
    const RingRecord& record = header_.ring(number);
    if (const std::optional<NamedTicket> named = record.ticket.read()) {
      Arena* const arena = call.arena(named->arena, record.strategy.load());
      if (arena == nullptr && !call.arena_is_gone(named->arena)) return Attempt::unmapped;
      if (arena != nullptr && named->block < arena->segment().capacity() &&
          named->ticket.sender < kMaxSlots) {
        const TransitTable& transit = session_.memory().transit(named->ticket.sender);
        if (transit.is_live(*named)) {
          arena->set_contents(named->block, {});  // so that any process can free it
        }
        SHMTENSOR_FAULT_POINT("queue.ring_cancel");
        arena->cancel_send(named->block, named->generation, named->ticket);
      }
    }
    SHMTENSOR_FAULT_POINT("queue.ring_retire");
    header_.head.ring.store(number + 1);
    WaitFlag(header_.putters).notify(1);
  }
}

void Queue::throw_lost(ArenaNumber arena) {
  throw StaleHandle("messages were lost: their arena " + std::to_string(arena) +
                    " no longer exists, because the manager was killed together with all processes "
                    "that had it open");
}

void Queue::prepare(Attempt attempt, QueueCall& call, nanoseconds time) {
  switch (attempt) {
    case Attempt::locked:
      if (OwnerLock(call.end_->lock).lock_within(session_.slot(), std::min(time, kLockSlice))) {
        call.locked_ = call.end_;
      } else {
        session_.ensure_manager();
      }
      return;
    case Attempt::empty:
      return wait(
          header_.getters, header_.tail, [this] { return has_happened(QueueEvent::message); },
          time);
    case Attempt::full:
      return wait(
          header_.putters, header_.head, [this] { return has_happened(QueueEvent::room); }, time);
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::ring:
      return call.make_ring();
    case Attempt::done:
    case Attempt::shut_down:
      return;
  }
}

template <typename Ready>
void Queue::wait(std::atomic<std::uint32_t>& word, const QueueEnd& other, Ready&& ready,
                 nanoseconds time) noexcept {
  const std::uint64_t begin = monotonic_nanoseconds();
  const std::uint64_t window = spin_.window(begin, other.processor.load(std::memory_order_relaxed));
  if (window != 0) {
    const std::uint64_t end =
        begin + std::min(window, static_cast<std::uint64_t>(std::max(time.count(), 0L)));
    do {
      for (int i = 0; i < 8; ++i) {
        if (ready()) return spin_.note(monotonic_nanoseconds() - begin);
        pause_processor();
      }
    } while (monotonic_nanoseconds() < end);
  }
  WaitFlag flag(word);
  const std::uint32_t announced = flag.announce();
  SHMTENSOR_FAULT_POINT("queue.announced");
  if (ready()) return;
  const WaitEnd end = flag.sleep(announced, std::min(time, kSlice));
  spin_.note(monotonic_nanoseconds() - begin);
  if (end == WaitEnd::timed_out) session_.ensure_manager();
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

void Queue::wait_until_done(nanoseconds time) noexcept {
  wait(header_.joiners, header_.head, [this] { return all_done(); }, time);
}

// With the lock, so that no message is put after another process has seen that the queue is shut
// down and empty. If its owner is stopped, the queue is shut down all the same.
void Queue::shut_down() {
  session_.require_slot();
  OwnerLock lock(header_.tail.lock);
  const bool locked = lock.lock_within(session_.slot(), kLockSlice);
  header_.stage.store(QueueStage::shut_down);
  if (locked) lock.unlock();
  for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
    WaitFlag(header_.waiters(event)).wake_everyone();
    if (WatchFlag(header_.watch(event)).is_used()) {
      static_cast<void>(session_.wake_watchers({.arena = arena_, .block = block_, .event = event}));
    }
  }
}

bool Queue::has_happened(QueueEvent event) const noexcept {
  if (is_shut_down()) return true;
  if (event == QueueEvent::message) return size() != 0;
  const bool ring = header_.tail.ring.load() + 1 - header_.head.ring.load() < QueueHeader::kRings;
  return ring && (limit() == 0 || size() < limit());
}

int Queue::watch(QueueEvent event) {
  session_.require_slot();
  return watches_[index(event)].open(session_, watched(event));
}

void Queue::settle(QueueEvent event) noexcept {
  watches_[index(event)].settle(session_, watched(event));
}

WatchedEvent Queue::watched(QueueEvent event) noexcept {
  QueueEnd& end = event == QueueEvent::message ? header_.tail : header_.head;
  return {.queue = {.arena = arena_, .block = block_, .event = event},
          .lock = OwnerLock(end.lock),
          .flag = WatchFlag(header_.watch(event)),
          .has_happened = [this, event] { return has_happened(event); }};
}

// With the lock under which the event happened.
void Queue::tell_watchers(QueueEvent event) noexcept {
  WatchFlag flag(header_.watch(event));
  if (!flag.is_armed()) return;
  SHMTENSOR_FAULT_POINT("queue.counted");
  if (session_.wake_watchers({.arena = arena_, .block = block_, .event = event})) flag.disarm();
  SHMTENSOR_FAULT_POINT("queue.disarmed");
}

void Queue::pass_wakeup_on() noexcept {
  WaitFlag(header_.getters).notify(1);
  WaitFlag(header_.putters).notify(1);
}

}  // namespace shmtensor
