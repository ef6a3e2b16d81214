// Processes of a session that use one queue, broadcast or cache.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "channel/channel_call.hpp"
#include "session/held_block.hpp"
#include "simulation/manager.hpp"
#include "simulation/places.hpp"
#include "simulation/program.hpp"
#include "simulation/snapshot.hpp"
#include "support/world.hpp"

namespace shmtensor::simulation {

template <typename Channel>
class ChannelWorld : public Program {
 protected:
  struct Process {
    Budget budget;
    std::unique_ptr<Session> session =
        Session::connect(Manager::get().memory().id(), Session::Start::never, {}, budget);
    HeldBlock block;
    std::optional<Channel> channel;
  };

  /// Makes the processes, and a channel that all have open, of `size` bytes by `create(block)`.
  template <typename Create>
  void build_channel(std::uint32_t processes, std::size_t size, Create&& create) {
    for (std::uint32_t i = 0; i < processes; ++i) {
      processes_.push_back(std::make_unique<Process>());
      slots_.push_back(processes_.back()->session->slot());
    }
    HeldBlock made(session(0).allocate(size, Strategy::file_descriptor));
    create(*made);
    for (std::uint32_t i = 0; i < processes; ++i) warm_up(i);
    for (std::uint32_t i = 0; i < processes; ++i) open(*processes_[i], *made);
    header_ = bytes_of(*processes_[0]->block);
  }

  [[nodiscard]] Session& session(std::uint32_t process) { return *processes_[process]->session; }
  [[nodiscard]] Channel& channel(std::uint32_t process) { return *processes_[process]->channel; }
  /// Makes the process of the session a holder of the block.
  static HeldBlock received(Session& session, const Block& made) {
    const PinnedArena arena =
        session.attach(made.arena->segment().number(), Strategy::file_descriptor);
    const testing::Sent sent = testing::send(*made.arena, made.number);
    if (!testing::receive(*arena, sent)) throw Error("the channel is gone");
    return HeldBlock({arena.get(), made.number});
  }
  /// As process 0 has mapped it.
  template <typename Header>
  [[nodiscard]] Header& header() {
    return *reinterpret_cast<Header*>(header_);
  }
  static std::byte* bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write).data();
  }

  /// Unless it waits, it also ends if there is nothing to take, or no room.
  template <typename Source, typename Try>
  static Attempt attempt(Source& source, ChannelCall& call, Try&& one, bool waits = true) {
    for (;;) {
      const Attempt result = one();
      const bool may_wait = result == Attempt::empty || result == Attempt::full;
      if (is_final(result) || (may_wait && !waits)) return result;
      source.prepare(result, call, std::chrono::hours(1));
    }
  }
  static constexpr std::uint64_t kBlock = 64;
  /// Of a message.
  [[nodiscard]] static std::uint64_t bytes_of_one(bool with_block) noexcept {
    return sizeof(std::uint64_t) + (with_block ? kBlock : 0);
  }
  /// Makes a block that begins with the content of its message.
  template <typename Content>
  HeldBlock make_block(std::uint32_t process, const Content& content) {
    HeldBlock block(session(process).allocate(kBlock, Strategy::file_descriptor));
    std::memcpy(bytes_of(*block), &content, sizeof content);
    return block;
  }
  /// A message of kind 1 has a block of `make_block`, one of kind 0 has none.
  template <typename Content>
  static Outgoing outgoing(std::uint32_t kind, const Content& content, const HeldBlock& block) {
    return {.kind = kind,
            .content = std::as_bytes(std::span(&content, 1)),
            .block = *block,
            .block_bytes = block ? kBlock : 0};
  }
  static Attempt put(Channel& to, const Outgoing& message) {
    ChannelCall call(to.session());
    return attempt(to, call, [&] { return to.try_put(message, call); });
  }
  /// Puts a number, in the message and, if wanted, in a block of its own.
  Attempt put(std::uint32_t process, std::uint64_t number, bool with_block) {
    const HeldBlock block = with_block ? make_block(process, number) : HeldBlock();
    return put(channel(process), outgoing(with_block ? 1 : 0, number, block));
  }
  template <typename Source>
  static Attempt take(Source& from, Incoming& message, bool waits = true) {
    ChannelCall call(from.session());
    return attempt(from, call, [&] { return from.try_take(message, call); }, waits);
  }
  /// Takes the number of the next message.
  template <typename Source>
  Attempt take(Source& from, std::uint64_t& number, bool waits = true) {
    Incoming message;
    const Attempt result = take(from, message, waits);
    if (result == Attempt::done) number = number_in(message);
    return result;
  }
  std::uint64_t number_in(const Incoming& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.content.data(), sizeof number);
    run_->expect((message.kind != 0) == static_cast<bool>(message.block),
                 "a message lacks its block");
    const bool is_equal =
        message.kind != 1 || std::memcmp(bytes_of(*message.block), &number, sizeof number) == 0;
    run_->expect(is_equal, "a message has another one's block");
    return number;
  }

  /// Names the words that queues and broadcasts have in common.
  template <typename Header>
  static void name_words_of(Header& header, const std::string& which = "") {
    Places& places = Places::get();
    places.name(&header.tail.lock, "tail lock" + which);
    places.name(&header.tail.count, "tail count" + which);
    places.name(&header.getters, "getters" + which);
    places.name(&header.putters, "putters" + which);
    places.name(&header.stage, "stage" + which);
  }

  [[nodiscard]] std::uint64_t live_blocks() {
    std::uint64_t count = 0;
    const Segment* segment = nullptr;
    for (ArenaNumber number = 0; (segment = manager_.arenas().after(number)) != nullptr;) {
      number = segment->number();
      count += testing::live_blocks(*segment);
    }
    return count;
  }
  [[nodiscard]] bool anyone_lives(const Run& run) const {
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      if (!run.is_dead(i)) return true;
    }
    return false;
  }

  Run* run_ = nullptr;
  Manager manager_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<SlotNumber> slots_;

 private:
  std::byte* header_ = nullptr;

  /// The process has an arena, which all map, and a table of tickets.
  void warm_up(std::uint32_t process) {
    const HeldBlock first(session(process).allocate(64, Strategy::file_descriptor));
    const testing::Sent sent = testing::send(*first->arena, first->number);
    first->arena->cancel_send(first->number, sent.generation, sent.ticket);
    const Segment& segment = first->arena->segment();
    for (const auto& other : processes_) {
      const PinnedArena arena = other->session->attach(segment.number(), Strategy::file_descriptor);
      static_cast<void>(arena->bytes(first->number, Access::read_write));
      arena->pin();
      for (const SlotNumber slot : slots_) {
        static_cast<void>(other->session->memory().transit(slot));
      }
    }
    static_cast<void>(manager_.memory().transit(slots_[process]));
    manager_.prepare(segment);
  }

  void open(Process& process, const Block& made) {
    process.block = received(*process.session, made);
    process.channel.emplace(*process.session, *process.block);
  }
};

}  // namespace shmtensor::simulation
