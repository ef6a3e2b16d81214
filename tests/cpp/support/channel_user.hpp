// A process of a session that uses a queue or a broadcast, as the layers above do.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "channel/channel_call.hpp"
#include "os/clock.hpp"
#include "support/channel_test.hpp"

namespace shmtensor::testing {

/// A member of the session with one channel.
template <typename Channel, typename Header>
class ChannelUser {
 public:
  static constexpr std::uint64_t kBlock = 300;

  explicit ChannelUser(const SessionId& id)
      : session_(Session::connect(id, Session::Start::always, {}, budget_)) {
    if (!session_) throw Error("there is no manager");
  }

  [[nodiscard]] Passed pass() const {
    return {block_->arena->segment().number(), send(*block_->arena, block_->number)};
  }
  void open(const Passed& passed, Strategy strategy = Strategy::file_descriptor) {
    const PinnedArena arena = session_->attach(passed.arena, strategy);
    if (!receive(*arena, passed.sent)) throw Error("the channel is gone");
    open(Block{arena.get(), passed.sent.block});
  }
  /// Releases the channel's block. All readers have left.
  void leave() {
    channel_.reset();
    block_.reset();
  }

  /// Writes one word somewhere, as another process may do: of those by which counts, numbers and
  /// flags may be wrong.
  static void damage(std::span<std::byte> bytes, std::mt19937_64& random) {
    const std::uint64_t kinds[] = {~std::uint64_t{0}, std::uint64_t{1} << random() % 64,
                                   random() % 70, random(), 0x0000'0001'0000'0001};
    const std::uint64_t value = kinds[random() % 5];
    std::memcpy(bytes.data() + random() % (bytes.size() / 8) * 8, &value, sizeof value);
  }

  /// Makes attempts on the channel until one is done or the time is over; returns the last result.
  template <typename Try>
  Attempt attempt(ChannelCall& call, std::chrono::nanoseconds time, Try&& one) {
    return attempt_on(*channel_, call, time, one);
  }

  [[nodiscard]] Session& session() const noexcept { return *session_; }
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(bytes().data()); }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_of(*block_); }
  [[nodiscard]] const Block& block() const noexcept { return *block_; }

 protected:
  /// Opens the channel in a block to which the caller has a reference.
  void open(const Block& block) {
    block_ = HeldBlock(block);
    channel_.emplace(*session_, *block_);
  }

  /// Puts a number, and if wanted a block that begins with it, by `try_put(message, call)`.
  template <typename Put>
  Attempt put_number(std::uint64_t number, bool with_block, std::chrono::nanoseconds time,
                     Strategy strategy, Put&& try_put) {
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session_->allocate(kBlock, strategy));
      std::memcpy(bytes_of(*block).data(), &number, sizeof number);
    }
    ChannelCall call(*session_);
    const Outgoing message{.kind = with_block ? 1u : 0u,
                           .content = std::as_bytes(std::span(&number, 1)),
                           .block = with_block ? *block : Block{}};
    return attempt(call, time, [&] { return try_put(message, call); });
  }

  /// Takes a message from a queue or a broadcast's reader, and checks it.
  template <typename Source>
  Attempt take_letter(Source& source, Letter& letter, std::chrono::nanoseconds time) {
    Incoming message;
    ChannelCall call(*session_);
    const auto take = [&] { return source.try_take(message, call); };
    const Attempt result = attempt_on(source, call, time, take);
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

  Budget budget_;
  std::unique_ptr<Session> session_;
  HeldBlock block_;
  std::optional<Channel> channel_;

 private:
  static std::span<std::byte> bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write);
  }
  template <typename Source, typename Try>
  static Attempt attempt_on(Source& source, ChannelCall& call, std::chrono::nanoseconds time,
                            Try& one) {
    const std::uint64_t end = monotonic_nanoseconds() + static_cast<std::uint64_t>(time.count());
    for (;;) {
      const Attempt result = one();
      if (is_final(result)) return result;
      const std::uint64_t now = monotonic_nanoseconds();
      if (now >= end) return result;
      source.prepare(result, call, std::chrono::nanoseconds(end - now));
    }
  }
};

}  // namespace shmtensor::testing
