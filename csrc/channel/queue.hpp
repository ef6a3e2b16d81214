// A queue of messages in shared memory: many processes put, many take, in order.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/atomic.hpp"
#include "channel/queue_watch.hpp"
#include "channel/spin_window.hpp"
#include "os/thread_observer.hpp"
#include "queue/kept.hpp"
#include "queue/layout.hpp"
#include "queue/rings.hpp"
#include "session/held_block.hpp"

namespace shmtensor {

/// What a message carries besides its content.
struct Outgoing {
  std::uint32_t kind = 0;              ///< for the reader
  std::span<const std::byte> content;  ///< at most MessageEntry::kContent bytes
  Block block;                         ///< held by the caller; none if `arena` is null
  Access access = Access::read_write;  ///< of the reader
  std::uint64_t block_bytes = 0;       ///< of that block, and of those whose tickets it contains
  std::uint64_t copied_bytes = 0;      ///< of those that were made for the message

  [[nodiscard]] std::uint64_t bytes() const noexcept { return content.size() + block_bytes; }
};

struct Incoming {
  std::uint32_t kind = 0;
  std::uint32_t size = 0;
  std::array<std::byte, MessageEntry::kContent> content;
  HeldBlock block;  ///< may be empty
  Access access = Access::read_write;
  /// Of a queue that redelivers: the number of its record, which keeps the tickets of the message.
  std::uint32_t kept = KeptMessages::kRecords;
};

/// What became of an attempt to put or take a message.
enum class Attempt : std::uint8_t {
  done,
  full,
  empty,
  shut_down,
  closed,     ///< this object was closed
  no_reader,  ///< a broadcast that no process reads
  ending,     ///< shut down, but a message is being put that another process began to put before
  locked,     ///< another process, or thread, has the lock
  unmapped,   ///< an arena must be mapped first
  ring,       ///< a larger ring is needed
  pipe,       ///< the ready pipe of an event is needed
};

/// Return true if another attempt would end alike.
[[nodiscard]] constexpr bool is_final(Attempt result) noexcept {
  return result == Attempt::done || result == Attempt::shut_down || result == Attempt::closed ||
         result == Attempt::no_reader;
}

struct QueueOptions {
  std::uint64_t limit = 0;      ///< messages that fit; 0: as many as memory permits
  std::uint64_t max_bytes = 0;  ///< no message is put while those there have so many; 0: no limit
  bool counts_copies = false;   ///< of these, only those in blocks that were made for the message
  bool redelivers = false;
  QueueLabel label{};
};

class ChannelCall;

/// The queue in one block, as this process uses it. The caller keeps the block held, and its arena
/// mapped, as long as the object exists.
///
/// An attempt never sleeps, so it may be made with the GIL. What it lacks, `prepare` provides, or
/// waits for a short time, without the GIL.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Queue final : private ThreadObserver {
 public:
  /// The size of the block of a queue.
  [[nodiscard]] static constexpr std::size_t bytes(bool redelivers) noexcept {
    return redelivers ? KeptMessages::kBytes : sizeof(QueueHeader);
  }
  /// Makes a queue in a new block of `bytes()`.
  static void create(const Block& block, const QueueOptions& options);

  /// Throws SessionError if the block has no queue.
  Queue(Session& session, const Block& block);
  ~Queue();
  [[nodiscard]] Session& session() const noexcept { return session_; }

  /// Throws OutOfMemory if the table of tickets is full.
  [[nodiscard]] Attempt try_put(const Outgoing& message, ChannelCall& call);
  /// Throws StaleHandle if the message was lost together with its arena, or with all messages in
  /// its ring; the next attempt continues with the message after them.
  [[nodiscard]] Attempt try_take(Incoming& message, ChannelCall& call);
  /// Provides the number of messages that were taken, with the lock of the head: if a process died
  /// with it, after the repair.
  [[nodiscard]] Attempt try_count_taken(std::uint64_t& taken, ChannelCall& call);
  /// Lets each later take of this object write the position of its message, plus 1, into a word,
  /// before it consumes the message. To be called before other threads use the object.
  void claim_in(Atomic<std::uint64_t>& word) noexcept { claim_ = &word; }

  /// Return true if the messages of a killed consumer are received again. Such a queue leaves the
  /// tickets of a message that is taken to its record, until the consumer completes it.
  [[nodiscard]] bool redelivers() const noexcept { return static_cast<bool>(kept_); }
  /// Complete the message of a record, or all that this thread has received through this object.
  /// May wait for the manager. Throw OsError, SessionError; the message is not completed then.
  void complete(std::uint32_t number);
  void complete_all();
  [[nodiscard]] bool keeps_any_here() const { return first_kept_here().has_value(); }
  /// Return the message of a record that has not been completed to the queue, or all that this
  /// thread has received through this object.
  void return_one(std::uint32_t number) noexcept;
  void return_all() noexcept;

  /// After an attempt that was not `done`: provides what it lacked, or waits until it may succeed,
  /// at most a second and at most for `time`. Throws OutOfMemory, SessionError, OsError.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);

  /// Messages that can be taken.
  [[nodiscard]] std::uint64_t size() const noexcept {
    return header_.waiting() + kept_.count_returned();
  }
  /// Those in the rings have so many bytes, with the blocks to which they refer.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept { return header_.waiting_bytes(); }
  [[nodiscard]] bool is_full() const noexcept { return header_.is_full(); }
  /// Messages that were put since the queue was made.
  [[nodiscard]] std::uint64_t put_count() const noexcept { return header_.tail.count.load(); }
  [[nodiscard]] std::uint64_t limit() const noexcept { return header_.limit.load(); }
  [[nodiscard]] std::uint64_t max_bytes() const noexcept { return header_.max_bytes.load(); }

  /// Counts a message as done; returns false if it was called more often than messages were put. If
  /// the queue redelivers, completes the first message that this thread has; returns false if it
  /// has none.
  [[nodiscard]] bool task_done();
  /// Return true if all messages that were put are done, or completed.
  [[nodiscard]] bool all_done() const noexcept;
  /// Waits until `all_done` may be true, or this object is closed, at most for this time.
  void wait_until_done(std::chrono::nanoseconds time) noexcept;

  /// Throws SessionError if this process has no slot.
  void shut_down();
  [[nodiscard]] bool is_shut_down() const noexcept { return header_.is_shut_down(); }

  /// Lets every attempt of this object, and those that wait, end as `closed`, and returns all
  /// messages that were received through it. May be repeated.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(); }

  /// Returns a descriptor that is readable while the event has happened. It stays open as long as
  /// this object. Throws OsError, SessionError.
  [[nodiscard]] int watch(QueueEvent event);
  /// After an attempt: makes the descriptors of all processes unreadable if the event has not
  /// happened. May wait for the manager.
  void settle(QueueEvent event) noexcept;
  /// Return true if `settle` has something to do.
  [[nodiscard]] bool must_settle(QueueEvent event) {
    return header_.pipe(event).load() != 0 && !is_closed() &&
           watches_[index(event)].must_settle(session_, watched(event));
  }

  /// For a thread that was woken and does not continue: wakes others in its place.
  void pass_wakeup_on() noexcept;

 private:
  [[nodiscard]] Attempt put_locked(const Outgoing& message, ChannelCall& call);
  [[nodiscard]] Attempt take_locked(Incoming& message, ChannelCall& call);
  /// What an entry names, found and mapped; the arena is null if it is gone.
  struct TakenFrom {
    std::optional<NamedTicket> named;
    Arena* arena = nullptr;
  };
  /// Copies the content of a message. Returns nothing if its block must be mapped first.
  [[nodiscard]] static std::optional<TakenFrom> read(const MessageEntry& entry, Incoming& message,
                                                     ChannelCall& call);
  [[nodiscard]] bool keep(MessageEntry& entry, const TakenFrom& from, std::uint32_t number,
                          std::uint64_t position, Incoming& message);
  [[nodiscard]] std::optional<Attempt> take_returned(std::uint32_t number, Incoming& message,
                                                     ChannelCall& call);
  void free_record(std::uint32_t number) noexcept;
  template <typename Visit>
  void for_each_received_here(Visit&& visit) const;
  [[nodiscard]] std::optional<std::uint32_t> first_kept_here() const;
  void return_of_all_threads() noexcept;
  void end_thread() noexcept override { return_all(); }
  void enter_child() noexcept override;
  [[nodiscard]] Attempt retire_rings(ChannelCall& call, std::uint64_t head);
  void begin_ring(std::uint32_t number, std::uint64_t start, const HeldBlock* block);
  [[nodiscard]] static std::size_t index(QueueEvent event) noexcept {
    return static_cast<std::size_t>(event);
  }
  [[nodiscard]] WatchedEvent watched(QueueEvent event) noexcept;
  [[nodiscard]] bool has_happened(QueueEvent event) const noexcept {
    return shmtensor::has_happened(header_, kept_, event);
  }
  /// Lets the event happen, with its lock, and makes the descriptors of all processes readable. The
  /// flag is disarmed before: a process that takes the message immediately finds that, and waits
  /// for the lock to settle.
  template <typename Change>
  void let_happen(QueueEvent event, Change&& change) {
    WatchFlag flag(header_.watch(event));
    const bool armed = flag.is_armed();
    if (armed) flag.disarm();
    change();
    if (armed) watches_[index(event)].raise(session_, watched(event));
  }
  /// Return true if `let_happen` lacks the pipe.
  [[nodiscard]] bool lacks_pipe(QueueEvent event);
  /// Wakes all that wait for the event, without the lock under which it happened.
  void wake_everyone(QueueEvent event) noexcept;
  void count_taken(std::uint64_t head, std::uint64_t bytes) noexcept;
  /// Of all messages up to the one at `head`; if it was `taken`, its block is held.
  [[nodiscard]] std::uint64_t bytes_until(const MessageEntry& entry, const TakenFrom& from,
                                          std::uint64_t head, bool taken) const noexcept;
  /// Messages were lost, so no consumer can call `task_done` for them.
  void count_lost(std::uint64_t messages) noexcept;
  void wake_joiners() noexcept;
  [[nodiscard]] bool is_consumed(const std::optional<NamedTicket>& named) const;
  [[noreturn]] static void throw_lost(ArenaNumber arena);
  /// Any process of the session can write to the memory of a queue, so a number in it may be wrong.
  [[noreturn]] static void throw_damaged();
  template <typename Ready>
  void wait(Atomic<std::uint32_t>& word, const QueueEnd& other, Ready&& ready,
            std::chrono::nanoseconds time) noexcept;

  Session& session_;
  QueueHeader& header_;
  KeptMessages kept_;
  // By record: the number of the thread that received the message through this object, or 0. Who
  // clears the entry completes the message, or returns it.
  std::unique_ptr<std::array<Atomic<std::uint32_t>, KeptMessages::kRecords>> received_;
  Atomic<bool> closed_{false};
  ArenaNumber arena_;
  BlockNumber block_;
  // The arenas of the rings in use stay mapped, also after the death of their owners: attaching the
  // arena of a message unmaps orphan arenas in which this process holds nothing, and the next
  // manager finds an arena only if a process has it open. Only the thread that has the lock of the
  // end changes them.
  PinnedArena tail_arena_;
  PinnedArena head_arena_;
  SpinWindow spin_;
  Atomic<std::uint64_t>* claim_ = nullptr;
  std::array<QueueWatch, 2> watches_;  ///< by event
};

}  // namespace shmtensor
