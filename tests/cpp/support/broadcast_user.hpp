// A process of a session that uses a broadcast, as the layers above do.
#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "channel/broadcast.hpp"
#include "channel/queue_call.hpp"
#include "os/clock.hpp"
#include "support/channel_test.hpp"

namespace shmtensor::testing {

/// A member of the session with one broadcast.
class BroadcastUser {
 public:
  static constexpr std::uint64_t kBlock = 300;

  explicit BroadcastUser(const SessionId& id)
      : session_(Session::connect(id, Session::Start::always, {}, budget_)) {
    if (!session_) throw Error("there is no manager");
  }
  ~BroadcastUser() { broadcast_.reset(); }

  void make(std::uint64_t limit, OnFull on_full = OnFull::block,
            Strategy strategy = Strategy::file_descriptor) {
    block_ = HeldBlock(session_->allocate(BroadcastHeader::bytes(limit), strategy));
    Broadcast::create(*block_, limit, on_full);
    broadcast_.emplace(*session_, *block_);
  }
  [[nodiscard]] Passed pass() const {
    return {block_->arena->segment().number(), send(*block_->arena, block_->number)};
  }
  void open(const Passed& passed, Strategy strategy = Strategy::file_descriptor) {
    const PinnedArena arena = session_->attach(passed.arena, strategy);
    if (!receive(*arena, passed.sent)) throw Error("the broadcast is gone");
    block_ = HeldBlock({arena.get(), passed.sent.block});
    broadcast_.emplace(*session_, *block_);
  }
  /// Releases the broadcast's block. All readers have left.
  void leave() {
    broadcast_.reset();
    block_.reset();
  }
  [[nodiscard]] std::unique_ptr<BroadcastReader> reader() {
    return std::make_unique<BroadcastReader>(*broadcast_);
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
    bool has_readers = false;
    const Outgoing message{.kind = with_block ? 1u : 0u,
                           .content = std::as_bytes(std::span(&number, 1)),
                           .block = with_block ? *block : Block{}};
    return attempt(*broadcast_, call, time,
                   [&] { return broadcast_->try_put(message, call, has_readers); });
  }
  Attempt take(BroadcastReader& reader, Letter& letter,
               std::chrono::nanoseconds time = std::chrono::hours(1)) {
    Incoming message;
    QueueCall call(*session_);
    const Attempt result =
        attempt(reader, call, time, [&] { return reader.try_take(message, call); });
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
  /// The number of the reader's next message; nothing if there is none at present.
  std::optional<std::uint64_t> next(BroadcastReader& reader) {
    Letter letter;
    const auto time = std::chrono::seconds(reader.lag() != 0 ? 30 : 0);
    return take(reader, letter, time) == Attempt::done ? std::optional(letter.number)
                                                       : std::nullopt;
  }

  [[nodiscard]] Session& session() const noexcept { return *session_; }
  [[nodiscard]] Broadcast& broadcast() noexcept { return *broadcast_; }
  [[nodiscard]] BroadcastHeader& header() const {
    return *reinterpret_cast<BroadcastHeader*>(bytes().data());
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_of(*block_); }
  [[nodiscard]] const Block& block() const noexcept { return *block_; }

 private:
  static std::span<std::byte> bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write);
  }
  /// Makes attempts until one is done or the time is over; returns the last result.
  template <typename Channel, typename Try>
  static Attempt attempt(Channel& channel, QueueCall& call, std::chrono::nanoseconds time,
                         Try&& one) {
    const std::uint64_t end = monotonic_nanoseconds() + static_cast<std::uint64_t>(time.count());
    for (;;) {
      const Attempt result = one();
      if (result == Attempt::done || result == Attempt::shut_down) return result;
      const std::uint64_t now = monotonic_nanoseconds();
      if (now >= end) return result;
      channel.prepare(result, call, std::chrono::nanoseconds(end - now));
    }
  }

  Budget budget_;
  std::unique_ptr<Session> session_;
  HeldBlock block_;
  std::optional<Broadcast> broadcast_;
};

using BroadcastTest = ChannelTest<BroadcastUser>;

}  // namespace shmtensor::testing
