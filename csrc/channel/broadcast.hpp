// A broadcast of messages in shared memory: one process puts, each reader takes all, in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/atomic.hpp"
#include "channel/queue.hpp"
#include "channel/spin_window.hpp"
#include "os/mutex.hpp"
#include "queue/broadcast_ring.hpp"

namespace shmtensor {

struct BroadcastOptions {
  std::uint64_t limit = 1;      ///< messages that fit, at most BroadcastHeader::kMostMessages
  std::uint64_t max_bytes = 0;  ///< it is full while unread messages have so many; 0: no limit
  OnFull on_full = OnFull::block;
  QueueLabel label{};
};

/// The broadcast in one block, as this process uses it. The caller keeps the block held, and its
/// arena mapped, as long as the object exists.
///
/// As with a queue, an attempt never sleeps, so it may be made with the GIL.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Broadcast {
 public:
  /// Makes a broadcast in a new block of BroadcastHeader::bytes(limit) bytes.
  static void create(const Block& block, const BroadcastOptions& options);

  /// Throws SessionError if the block has no broadcast.
  Broadcast(Session& session, const Block& block);
  [[nodiscard]] Session& session() const noexcept { return session_; }

  /// Throws OutOfMemory if the table of tickets is full.
  [[nodiscard]] Attempt try_put(const Outgoing& message, ChannelCall& call);
  /// As Queue::prepare, after an attempt to put.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);
  /// For a thread that was woken and does not continue: all others were woken, too.
  void pass_wakeup_on() noexcept {}

  [[nodiscard]] std::uint64_t limit() const noexcept { return ring_.limit(); }
  [[nodiscard]] OnFull on_full() const noexcept { return ring_.header().on_full.load(); }
  [[nodiscard]] std::uint64_t max_bytes() const noexcept { return ring_.header().max_bytes.load(); }
  /// Messages that were put.
  [[nodiscard]] std::uint64_t count() const noexcept { return ring_.header().tail.count.load(); }
  /// Messages that the slowest reader has still to read.
  [[nodiscard]] std::uint64_t lag() const noexcept;
  /// The bytes of those, with the blocks to which they refer.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept;
  [[nodiscard]] std::uint32_t readers() const noexcept;
  /// Waits until there may be so many readers, at most for this time and a second.
  void wait_for_readers(std::uint32_t count, std::chrono::nanoseconds time) noexcept;

  /// Throws SessionError if this process has no slot.
  void shut_down();
  /// Lets the attempts to put through this object, and those that wait, end as `closed`.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(); }
  [[nodiscard]] bool is_shut_down() const noexcept {
    return ring_.header().stage.load() != QueueStage::open;
  }

 private:
  friend class BroadcastReader;
  friend class NewestMessage;

  enum class Step : std::uint8_t { taken, again, lacks_memory, lost };

  /// Copies a message that was in the window, and holds its block, if `named` is its ticket, which
  /// is left to others.
  [[nodiscard]] Step copy(std::uint64_t number, Incoming& message,
                          std::optional<NamedTicket>& named, ChannelCall& call);
  [[noreturn]] static void throw_lost();

  [[nodiscard]] Attempt put_locked(const Outgoing& message, ChannelCall& call);
  /// With `drop_oldest`, drops messages until there is room. Nothing is missing if `done`.
  [[nodiscard]] Attempt make_room(std::uint64_t tail, ChannelCall& call);
  /// Return true if one more message has room.
  [[nodiscard]] bool has_room() const noexcept;
  /// The processor for `spin_then_sleep`.
  [[nodiscard]] int awaited_processor(int otherwise) const noexcept;
  /// Cancels the tickets of the messages from `begin` that all readers have passed. May wait for
  /// the manager, for an arena.
  void release(std::uint64_t begin) noexcept;
  /// After a reader has changed its position: wakes writers if one may be asleep and has room.
  void wake_writers() noexcept;

  Session& session_;
  BroadcastRing ring_;
  SpinWindow spin_;
  Atomic<bool> closed_{false};
};

/// A reader of a broadcast, in the process that made it.
/// Threads: all members may be called simultaneously.
class BroadcastReader {
 public:
  /// Joins: all messages that are put from now on are read. Throws SessionError if there are
  /// too many readers, or this process has no slot.
  explicit BroadcastReader(Broadcast& broadcast);
  /// Leaves.
  ~BroadcastReader() { leave(); }
  BroadcastReader(const BroadcastReader&) = delete;
  BroadcastReader& operator=(const BroadcastReader&) = delete;

  [[nodiscard]] Session& session() const noexcept { return broadcast_.session_; }
  /// From now on this reader takes the newest message only, and no writer waits for it.
  void skip_to_newest() noexcept;
  /// Throws SessionError in a forked child, which is not the reader.
  void require_ours() const;

  /// Throws StaleHandle if the message was lost together with its arena; the next attempt continues
  /// with the message after it.
  [[nodiscard]] Attempt try_take(Incoming& message, ChannelCall& call);
  /// As Queue::prepare, after an attempt to take.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);
  void pass_wakeup_on() noexcept {}

  /// Messages that can be taken now.
  [[nodiscard]] std::uint64_t lag() const noexcept;
  /// Messages that were overwritten before this reader took them.
  [[nodiscard]] std::uint64_t missed() const noexcept {
    return missed_.load(std::memory_order_relaxed);
  }
  /// Lets every attempt of this object, and those that wait, end as `closed`; the other readers
  /// continue. May be repeated.
  void leave() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return left_.load(); }

 private:
  using Step = Broadcast::Step;

  [[nodiscard]] bool is_ours() const noexcept { return owner_ == session().incarnation(); }
  void join();
  [[nodiscard]] Attempt take_next(Incoming& message, ChannelCall& call) REQUIRES(mutex_);
  [[nodiscard]] Step take(std::uint64_t number, Incoming& message, ChannelCall& call)
      REQUIRES(mutex_);
  void pass(std::uint64_t number) noexcept;
  [[nodiscard]] bool has_message() const noexcept;

  Broadcast& broadcast_;
  Incarnation owner_;
  ReaderRecord* record_ = nullptr;
  Mutex mutex_;  ///< one thread takes at a time
  Atomic<bool> left_{false};
  Atomic<bool> skips_{false};
  Atomic<std::uint64_t> missed_{0};
};

}  // namespace shmtensor
