// A process of a session that uses a queue, as the layers above do.
#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "channel/queue.hpp"
#include "channel/queue_call.hpp"
#include "os/clock.hpp"
#include "support/channel_test.hpp"

namespace shmtensor::testing {

/// A member of the session with one queue.
class QueueUser {
 public:
  static constexpr std::uint64_t kBlock = 300;

  explicit QueueUser(const SessionId& id)
      : session_(Session::connect(id, Session::Start::always, {}, budget_)) {
    if (!session_) throw Error("there is no manager");
  }
  ~QueueUser() { queue_.reset(); }

  void make(std::uint64_t limit, Strategy strategy = Strategy::file_descriptor,
            bool redelivers = false) {
    block_ = HeldBlock(session_->allocate(Queue::bytes(redelivers), strategy));
    Queue::create(*block_, limit, redelivers);
    queue_.emplace(*session_, *block_);
  }
  [[nodiscard]] Passed pass() const {
    return {block_->arena->segment().number(), send(*block_->arena, block_->number)};
  }
  void open(const Passed& passed, Strategy strategy = Strategy::file_descriptor) {
    const PinnedArena arena = session_->attach(passed.arena, strategy);
    if (!receive(*arena, passed.sent)) throw Error("the queue is gone");
    block_ = HeldBlock({arena.get(), passed.sent.block});
    queue_.emplace(*session_, *block_);
  }
  /// Releases the queue's block.
  void leave() {
    queue_.reset();
    block_.reset();
  }

  /// Makes attempts until one is done or the time is over; returns the last result.
  template <typename Try>
  Attempt attempt(QueueCall& call, std::chrono::nanoseconds time, Try&& one) {
    const std::uint64_t end = monotonic_nanoseconds() + static_cast<std::uint64_t>(time.count());
    for (;;) {
      const Attempt result = one();
      if (result == Attempt::done || result == Attempt::shut_down || result == Attempt::closed) {
        return result;
      }
      const std::uint64_t now = monotonic_nanoseconds();
      if (now >= end) return result;
      queue_->prepare(result, call, std::chrono::nanoseconds(end - now));
    }
  }

  Attempt put(std::uint64_t number, bool with_block,
              std::chrono::nanoseconds time = std::chrono::hours(1),
              Strategy strategy = Strategy::file_descriptor) {
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session_->allocate(kBlock, strategy));
      std::memcpy(bytes_of(*block).data(), &number, sizeof number);
    }
    QueueCall call(*session_);
    const Outgoing message{.kind = with_block ? 1u : 0u,
                           .content = std::as_bytes(std::span(&number, 1)),
                           .block = with_block ? *block : Block{}};
    return attempt(call, time, [&] { return queue_->try_put(message, call); });
  }
  /// If the queue redelivers, completes what was taken before.
  Attempt take(Letter& letter, std::chrono::nanoseconds time = std::chrono::hours(1)) {
    if (queue_->redelivers()) queue_->complete_all();
    Incoming message;
    QueueCall call(*session_);
    const Attempt result = attempt(call, time, [&] { return queue_->try_take(message, call); });
    if (result != Attempt::done) return result;
    EXPECT_EQ(message.size, sizeof letter.number);
    std::memcpy(&letter.number, message.content.data(), sizeof letter.number);
    letter.had_block = static_cast<bool>(message.block);
    EXPECT_EQ(letter.had_block, message.kind == 1);
    if (message.block) {
      std::uint64_t inside = 0;
      std::memcpy(&inside, bytes_of(*message.block).data(), sizeof inside);
      EXPECT_EQ(inside, letter.number);
    }
    return result;
  }
  /// The number of the next message; nothing if there is none at present.
  std::optional<std::uint64_t> next() {
    for (int i = 0; i < 1000; ++i) {
      Letter letter;
      const Attempt result = take(letter, std::chrono::milliseconds(queue_->size() != 0 ? 100 : 0));
      if (result == Attempt::done) return letter.number;
      if (result == Attempt::empty || result == Attempt::shut_down) return std::nullopt;
    }
    return std::nullopt;
  }

  [[nodiscard]] Session& session() const noexcept { return *session_; }
  [[nodiscard]] Queue& queue() noexcept { return *queue_; }
  [[nodiscard]] QueueHeader& header() const {
    return *reinterpret_cast<QueueHeader*>(bytes_of(*block_).data());
  }
  [[nodiscard]] const Block& block() const noexcept { return *block_; }

 private:
  static std::span<std::byte> bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write);
  }

  Budget budget_;
  std::unique_ptr<Session> session_;
  HeldBlock block_;
  std::optional<Queue> queue_;
};

using QueueTest = ChannelTest<QueueUser>;

}  // namespace shmtensor::testing
