// Processes of a session that use one queue or broadcast.
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
  /// As process 0 has mapped it.
  template <typename Header>
  [[nodiscard]] Header& header() {
    return *reinterpret_cast<Header*>(header_);
  }
  static std::byte* bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write).data();
  }

  template <typename Source, typename Try>
  static Attempt attempt(Source& source, ChannelCall& call, Try&& one, bool waits = true) {
    for (;;) {
      const Attempt result = one();
      if (is_final(result) || (result == Attempt::empty && !waits)) return result;
      source.prepare(result, call, std::chrono::hours(1));
    }
  }
  static constexpr std::uint64_t kBlock = 64;
  /// Of a message.
  [[nodiscard]] static std::uint64_t bytes_of_one(bool with_block) noexcept {
    return sizeof(std::uint64_t) + (with_block ? kBlock : 0);
  }
  /// Puts a number, in the message and, if wanted, in a block of its own.
  Attempt put(std::uint32_t process, std::uint64_t number, bool with_block) {
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session(process).allocate(kBlock, Strategy::file_descriptor));
      std::memcpy(bytes_of(*block), &number, sizeof number);
    }
    ChannelCall call(session(process));
    const Outgoing message{.kind = with_block ? 1u : 0u,
                           .content = std::as_bytes(std::span(&number, 1)),
                           .block = block ? *block : Block{},
                           .block_bytes = with_block ? kBlock : 0};
    Channel& to = channel(process);
    return attempt(to, call, [&] { return to.try_put(message, call); });
  }
  /// Takes the number of the next message.
  template <typename Source>
  Attempt take(Source& from, std::uint64_t& number, bool waits = true) {
    Incoming message;
    ChannelCall call(from.session());
    const Attempt result = attempt(from, call, [&] { return from.try_take(message, call); }, waits);
    if (result != Attempt::done) return result;
    std::memcpy(&number, message.content.data(), sizeof number);
    run_->expect((message.kind == 1) == static_cast<bool>(message.block),
                 "a message lacks its block");
    if (message.block) {
      std::uint64_t inside = 0;
      std::memcpy(&inside, bytes_of(*message.block), sizeof inside);
      run_->expect(inside == number, "a message has another one's block");
    }
    return Attempt::done;
  }

  /// Names the words that queues and broadcasts have in common.
  template <typename Header>
  static void name_words_of(Header& header) {
    Places& places = Places::get();
    places.name(&header.tail.lock, "tail lock");
    places.name(&header.tail.count, "tail count");
    places.name(&header.getters, "getters");
    places.name(&header.putters, "putters");
    places.name(&header.stage, "stage");
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
    const ArenaNumber number = made.arena->segment().number();
    const PinnedArena arena = process.session->attach(number, Strategy::file_descriptor);
    const testing::Sent sent = testing::send(*made.arena, made.number);
    if (!testing::receive(*arena, sent)) throw Error("the channel is gone");
    process.block = HeldBlock({arena.get(), made.number});
    process.channel.emplace(*process.session, *process.block);
  }
};

}  // namespace shmtensor::simulation
