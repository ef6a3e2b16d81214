#include "channel/broadcast.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/report.hpp"
#include "channel/channel_call.hpp"
#include "channel/spin_then_sleep.hpp"
#include "os/fork_mark.hpp"
#include "os/limits.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {
namespace {

BroadcastRing ring_of(const Block& block) {
  const auto ring = BroadcastRing::in(block.arena->bytes(block.number, Access::read_write));
  if (!ring) throw SessionError("not a broadcast of this version, or a damaged one");
  return *ring;
}

}  // namespace

// The names of the records are cleared before the block is declared to contain them: the memory of
// a new block has the bytes of an earlier one.
void Broadcast::create(const Block& block, const BroadcastOptions& options) {
  const std::span<std::byte> bytes = block.arena->bytes(block.number, Access::read_write);
  std::memset(bytes.data(), 0, BroadcastHeader::bytes(options.limit));
  auto& header = *reinterpret_cast<BroadcastHeader*>(bytes.data());
  header.limit.store(options.limit);
  header.max_bytes.store(options.max_bytes);
  header.on_full.store(options.on_full);
  header.label = options.label;
  header.magic.store(kBroadcastMagic);
  block.arena->set_contents(block.number, BroadcastHeader::contents(options.limit));
}

Broadcast::Broadcast(Session& session, const Block& block)
    : session_(session), ring_(ring_of(block)) {}

std::uint64_t Broadcast::lag() const noexcept {
  const std::uint64_t tail = ring_.header().tail.count.load();
  return std::min(tail - ring_.first_unread(tail), limit());
}

std::uint64_t Broadcast::waiting_bytes() const noexcept {
  const std::uint64_t tail = ring_.header().tail.count.load();
  return ring_.bytes_from(std::max(ring_.first_unread(tail), ring_.window(tail)), tail);
}

std::uint32_t Broadcast::readers() const noexcept {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      ring_.readers(), [](const ReaderRecord& reader) { return reader.reads(); }));
}

void Broadcast::wait_for_readers(std::uint32_t count, std::chrono::nanoseconds time) noexcept {
  const auto ready = [&] { return readers() >= count || is_shut_down() || is_closed(); };
  spin_then_sleep(session_, spin_, ring_.header().putters, -1, ready, time);
}

bool Broadcast::has_room() const noexcept {
  if (on_full() == OnFull::drop_oldest) return true;
  const std::uint64_t tail = ring_.header().tail.count.load();
  const std::uint64_t first = ring_.first_unread(tail);
  return tail - first < limit() &&
         (max_bytes() == 0 || ring_.bytes_from(first, tail) < max_bytes());
}

void Broadcast::shut_down() {
  BroadcastHeader& header = ring_.header();
  {
    ChannelCall call(session_);
    call.lock_if_possible(header.tail);
    header.stage.store(QueueStage::shut_down);
  }
  for (Atomic<std::uint32_t>* word : {&header.getters, &header.putters}) {
    WaitFlag(*word).wake_everyone();
  }
}

void Broadcast::close() noexcept {
  if (!closed_.exchange(true) && !is_raw_copy()) WaitFlag(ring_.header().putters).notify_everyone();
}

void Broadcast::prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time) {
  switch (attempt) {
    case Attempt::locked:
      return call.wait_for_lock(time);
    case Attempt::unmapped:
      return call.map_missing();
    case Attempt::full:
      return spin_then_sleep(
          session_, spin_, ring_.header().putters, awaited_processor(-1),
          [this] { return is_shut_down() || is_closed() || has_room(); }, time);
    default:
      return;
  }
}

// While a reader that has messages to read shares the processor with this thread, spinning would
// only delay what is awaited.
int Broadcast::awaited_processor(int otherwise) const noexcept {
  const int here = present_processor();
  const std::uint64_t tail = ring_.header().tail.count.load();
  const bool shared = std::ranges::any_of(ring_.readers(), [&](const ReaderRecord& reader) {
    return reader.reads() && reader.next.load() != tail &&
           reader.processor.load(std::memory_order_relaxed) == here;
  });
  return shared ? kHere : otherwise;
}

void Broadcast::wake_writers() noexcept {
  WaitFlag flag(ring_.header().putters);
  if (flag.has_waiter() && has_room()) flag.wake_everyone();
}

void Broadcast::release(std::uint64_t begin) noexcept {
  try {
    const std::uint64_t tail = ring_.header().tail.count.load();
    const std::uint64_t end = ring_.first_needed(tail);
    for (std::uint64_t n = std::max(begin, tail - std::min(tail, limit())); n < end; ++n) {
      const std::uint8_t strategy = ring_.entry(n).strategy.load();
      const std::optional<NamedTicket> named = ring_.ticket_of(n);
      if (!named || !session_.memory().is_live(*named)) continue;
      session_.cancel(*named, static_cast<Strategy>(strategy));
    }
  } catch (const std::exception& error) {
    report("messages of a broadcast stay allocated until they are overwritten: ", error.what());
  }
}

}  // namespace shmtensor
