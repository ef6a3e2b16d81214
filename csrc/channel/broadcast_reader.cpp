// The end of a broadcast at which messages are taken, by each reader for itself and without a lock.
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "channel/broadcast.hpp"
#include "channel/channel_call.hpp"
#include "channel/hold_message.hpp"
#include "channel/message_entry.hpp"
#include "channel/spin_then_sleep.hpp"
#include "os/fork_mark.hpp"
#include "os/limits.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {

BroadcastReader::BroadcastReader(Broadcast& broadcast)
    : broadcast_(broadcast), owner_(broadcast.session().incarnation()) {
  join();
}

// The count is read again after the record is known. A process that has found before that all
// readers have passed a message has found it counted, so this reader begins after it.
void BroadcastReader::join() {
  session().require_slot();
  BroadcastHeader& header = broadcast_.ring_.header();
  const auto free = std::ranges::find_if(header.readers, [this](ReaderRecord& reader) {
    std::uint32_t unused = 0;
    return reader.owner.load(std::memory_order_relaxed) == 0 &&
           reader.owner.compare_exchange_strong(unused, ReaderRecord::owned_by(owner_.slot));
  });
  if (free == header.readers.end()) {
    throw SessionError("cannot join a broadcast: it has " +
                       std::to_string(BroadcastHeader::kReaders) +
                       " readers; close those that are not needed");
  }
  record_ = &*free;
  const auto needed = static_cast<std::uint32_t>(free - header.readers.begin() + 1);
  std::uint32_t used = header.used.load();
  while (used < needed && !header.used.compare_exchange_weak(used, needed)) {
  }
  const std::uint64_t first = header.tail.count.load();
  record_->next.store(first);
  record_->owner.store(ReaderRecord::owned_by(owner_.slot) | ReaderRecord::kReads);
  const std::uint64_t count = header.tail.count.load();
  record_->next.store(count);
  if (count != first) broadcast_.release(first);
  WaitFlag(header.putters).notify_everyone();
}

void BroadcastReader::skip_to_newest() noexcept {
  skips_.store(true);
  record_->owner.fetch_or(ReaderRecord::kSkips);
  broadcast_.wake_writers();
  broadcast_.release(record_->next.load());
}

// A forked child, or a raw copy of the process, is not the reader.
void BroadcastReader::leave() noexcept {
  if (left_.exchange(true) || !is_ours() || is_raw_copy()) return;
  std::uint64_t next = 0;
  {
    const LockGuard guard(mutex_);
    next = record_->next.load();
    record_->owner.store(0);
  }
  broadcast_.wake_writers();
  broadcast_.release(next);
  WaitFlag(broadcast_.ring_.header().getters).wake_everyone();  // threads of this process
}

void BroadcastReader::require_ours() const {
  session().require_slot();
  if (is_ours()) return;
  throw SessionError(
      "this reader of a broadcast belongs to the process that made it, not to its forked child: "
      "call reader() of the broadcast in the child");
}

Attempt BroadcastReader::try_take(Incoming& message, ChannelCall& call) {
  require_ours();
  const LockGuard guard(mutex_);
  if (is_closed()) return Attempt::closed;
  record_->processor.store(present_processor(), std::memory_order_relaxed);
  return take_next(message, call);
}

// The stage is read before the count: what was put before the shutdown is taken after it.
Attempt BroadcastReader::take_next(Incoming& message, ChannelCall& call) {
  const BroadcastRing& ring = broadcast_.ring_;
  for (;;) {
    const bool stopped = broadcast_.is_shut_down();
    const std::uint64_t tail = ring.header().tail.count.load();
    const std::uint64_t next = record_->next.load(std::memory_order_relaxed);
    if (tail == next) {
      if (!stopped) return Attempt::empty;
      if (const auto end = call.at_end(ring.header().tail, tail)) return *end;
      continue;
    }
    if (tail < next) throw SessionError("a broadcast is damaged: its counts are wrong");
    const std::uint64_t newest = skips_.load() ? tail - 1 : 0;
    if (const std::uint64_t first = std::max(ring.window(tail), newest); next < first) {
      missed_.fetch_add(first - next, std::memory_order_relaxed);
      record_->next.store(first);
      continue;
    }
    switch (take(next, message, call)) {
      case Step::taken:
        return Attempt::done;
      case Step::lacks_memory:
        return Attempt::unmapped;
      case Step::lost:
        if (skips_.load() && broadcast_.count() != tail) break;  // it was not needed any more
        pass(next);
        Broadcast::throw_lost();
      case Step::again:
        break;
    }
  }
}

// A message in the window has a live ticket until all readers pass it. So if its block cannot be
// held, it has left the window: then another message is in the entry, or soon will be.
Broadcast::Step Broadcast::copy(std::uint64_t number, Incoming& message,
                                std::optional<NamedTicket>& named, ChannelCall& call) {
  const MessageEntry& entry = ring_.entry(number);
  const auto strategy = static_cast<Strategy>(entry.strategy.load(std::memory_order_acquire));
  copy_entry(entry, message);
  named = entry.ticket.read();
  if (!ring_.in_window(number)) return Step::again;
  if (!named) return Step::taken;
  Arena* const arena = call.arena(named->arena, strategy);
  if (!call.can_use(arena, *named, message.access)) return Step::lacks_memory;
  message.block = hold_message(session_, arena, *named);
  if (message.block) return Step::taken;
  return ring_.in_window(number) ? Step::lost : Step::again;
}

Broadcast::Step BroadcastReader::take(std::uint64_t number, Incoming& message, ChannelCall& call) {
  std::optional<NamedTicket> named;
  const Step step = broadcast_.copy(number, message, named, call);
  if (step != Step::taken) return step;
  pass(number);
  // The block is held here, so its release tries to free it.
  if (named && broadcast_.ring_.have_passed(number + 1)) {
    session().memory().claim(*named);
  }
  return step;
}

void BroadcastReader::pass(std::uint64_t number) noexcept {
  record_->next.store(number + 1);
  broadcast_.wake_writers();
}

void Broadcast::throw_lost() {
  throw StaleHandle(
      "a message of a broadcast was lost: its arena no longer exists, because the manager was "
      "killed together with all processes that had it open");
}

bool BroadcastReader::has_message() const noexcept {
  return is_closed() || broadcast_.is_shut_down() ||
         broadcast_.ring_.header().tail.count.load() != record_->next.load();
}

void BroadcastReader::prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time) {
  BroadcastHeader& header = broadcast_.ring_.header();
  switch (attempt) {
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::ending:
      return call.wait_for_end(header.tail, time);
    case Attempt::empty:
      return spin_then_sleep(
          session(), broadcast_.spin_, header.getters,
          broadcast_.awaited_processor(header.tail.processor.load(std::memory_order_relaxed)),
          [this] { return has_message(); }, time);
    default:
      return;
  }
}

std::uint64_t BroadcastReader::lag() const noexcept {
  if (is_closed()) return 0;
  const std::uint64_t next = record_->next.load();  // first: the difference is never negative
  const std::uint64_t tail = broadcast_.ring_.header().tail.count.load();
  const std::uint64_t lag = tail - std::min(tail, std::max(next, broadcast_.ring_.window(tail)));
  return skips_.load() ? std::min<std::uint64_t>(lag, 1) : lag;
}

}  // namespace shmtensor
