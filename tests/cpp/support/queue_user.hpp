// A process of a session that uses a queue, as the layers above do.
#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "channel/queue.hpp"
#include "channel/queue_call.hpp"
#include "os/clock.hpp"
#include "os/shm_object.hpp"
#include "support/queue_world.hpp"
#include "support/server.hpp"

namespace shmtensor::testing {

/// Names a block for another process, which becomes its holder by the ticket.
struct Passed {
  ArenaNumber arena = 0;
  Sent sent;
};

/// A message with a number; with a block, the number is in it, too.
struct Letter {
  std::uint64_t number = 0;
  bool had_block = false;
};

/// A member of the session with one queue.
class QueueUser {
 public:
  static constexpr std::uint64_t kBlock = 300;

  explicit QueueUser(const SessionId& id)
      : session_(Session::connect(id, Session::Start::always, {}, budget_)) {
    if (!session_) throw Error("there is no manager");
  }
  ~QueueUser() { queue_.reset(); }

  void make(std::uint64_t limit, Strategy strategy = Strategy::file_descriptor) {
    block_ = HeldBlock(session_->allocate(sizeof(QueueHeader), strategy));
    Queue::create(*block_, limit);
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
      if (result == Attempt::done || result == Attempt::shut_down) return result;
      const std::uint64_t now = monotonic_nanoseconds();
      if (now >= end) return result;
      queue_->prepare(result, call, std::chrono::nanoseconds(end - now));
    }
  }

  Attempt put(std::uint64_t number, bool with_block,
              std::chrono::nanoseconds time = std::chrono::hours(1)) {
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session_->allocate(kBlock, Strategy::file_descriptor));
      std::memcpy(bytes_of(*block).data(), &number, sizeof number);
    }
    QueueCall call(*session_);
    const Outgoing message{.kind = with_block ? 1u : 0u,
                           .content = std::as_bytes(std::span(&number, 1)),
                           .block = with_block ? *block : Block{}};
    return attempt(call, time, [&] { return queue_->try_put(message, call); });
  }
  Attempt take(Letter& letter, std::chrono::nanoseconds time = std::chrono::hours(1)) {
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

/// A session with a manager, and a process that made a queue.
class QueueTest : public ServerTest {
 protected:
  void TearDown() override {
    ServerTest::TearDown();
    for (const std::string& name : list_shm(object_name(id_) + "-")) unlink_shm(name);
  }
  /// Return true if, in the end, no block is used and no ticket is live. Releases the queue.
  [[nodiscard]] bool nothing_is_left() {
    user_->leave();
    Client observer(id_);
    const auto reply = observer.hello(Join::observe);
    const auto memory = SessionMemory::open(id_, reply->fd.duplicate());
    return eventually([&] {
      user_->session().collect(kUnlimited);
      return live_tickets(*memory, 64) == 0 && used() == 0;
    });
  }
  /// Blocks of all arenas that are live or draining.
  [[nodiscard]] std::uint32_t used() {
    std::uint32_t count = 0;
    Message message = message_for(MessageKind::next_arena, id_);
    Client observer(id_);
    observer.hello(Join::observe);
    for (message.arena = 0;;) {
      const auto reply = observer.ask(message);
      if (!reply || reply->message.kind != MessageKind::done) return count;
      message.arena = reply->message.arena;
      try {
        const PinnedArena arena =
            user_->session().attach(message.arena, Strategy{reply->message.strategy});
        count += used_blocks(arena->segment());
      } catch (const StaleHandle&) {
        // It was empty and has been closed.
      }
    }
  }

  const std::unique_ptr<QueueUser> user_ = std::make_unique<QueueUser>(id_);
};

}  // namespace shmtensor::testing
