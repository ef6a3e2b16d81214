// The life of a block: it is allocated, sent, received, forwarded and released, and its record is
// used again, while processes are killed and the manager sweeps.
#include <array>
#include <cstring>

#include "arena/arena.hpp"
#include "simulation/manager.hpp"
#include "simulation/places.hpp"
#include "simulation/program.hpp"
#include "simulation/snapshot.hpp"
#include "support/world.hpp"

namespace shmtensor::simulation {
namespace {

using testing::Peer;
using testing::Sent;

constexpr SlotNumber kPeers = 3;
constexpr std::uint32_t kLetters = 3;

/// Sends the manager the notices of processes without a session.
class Notices final : public DrainRequests {
 public:
  void drain(ArenaNumber arena, BlockNumber block) noexcept override {
    Manager& manager = Manager::get();
    manager.take(message_about(MessageKind::drain, manager.memory().id(),
                               {.arena = arena, .block = block, .event = {}}));
  }
};

/// A message on its way, in a pipe that is not simulated.
struct Letter {
  enum State : std::uint32_t { none, unread, read };

  Atomic<std::uint32_t> state{none};
  Sent sent;
  std::uint64_t content = 0;
};

class BlockWorld : public Program {
 public:
  using Slots = std::array<SlotNumber, kPeers>;

  explicit BlockWorld(const Slots& slots = {0, 1, 2}) : slots_(slots) {}

  void build() override {
    for (std::uint32_t i = 0; i < kPeers; ++i) {
      peers_[i] = std::make_unique<Peer>(manager_.memory(), slots_[i], &notices_);
      arenas_[i] = i == 0 ? peers_[0]->make_arena() : peers_[i]->open_arena(arenas_[0]->segment());
      static_cast<void>(peers_[i]->member().writer());
      manager_.memory().slot(slots_[i]).incarnation.store(1);
      manager_.memory().slot(slots_[i]).status.store(SlotStatus::active);
    }
    const Segment& segment = arenas_[0]->segment();
    manager_.arenas().add(
        Segment::open(manager_.memory().id(), segment.number(), (*segment.file()).duplicate()),
        true, manager_.memory(), {});
    name_words();
    // Its pages exist, and all processes have mapped them: a run does not map anything.
    const BlockNumber first = *arenas_[0]->allocate(kSize);
    for (const auto& arena : arenas_) {
      static_cast<void>(arena->bytes(first, Access::read_write));
    }
    arenas_[0]->release(first);
    // Each process announces its plane, unless it is the owner's.
    segment.header().planes.store(1);
    segment.header().planes_wanted.store(1);
    manager_.prepare(segment);
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < kPeers; ++i) {
      run.add_thread(run.add_process("process " + std::to_string(i), true), [this, i] { act(i); });
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    const Segment& segment = arenas_[0]->segment();
    bool any_dead = false;
    for (std::uint32_t i = 0; i < kPeers; ++i) any_dead = any_dead || run.is_dead(i);
    bool any_unread = false;
    for (const Letter& letter : letters_) {
      if (letter.state.load() != Letter::unread) continue;
      any_unread = true;
      const BlockWord word(segment.record(letter.sent.block).word.load());
      if (!word.live_at_generation(letter.sent.generation)) {
        return run.fail("the block of an unread message was freed");
      }
    }
    // A process may have been killed before it wrote the message of a ticket.
    if (any_dead || any_unread) manager_.arenas().collect(manager_.memory(), 0);
    if (testing::used_blocks(segment) != 0) return run.fail("a block is left");
    for (BlockNumber block = 0; block < segment.capacity(); ++block) {
      if (has_holder(segment, block)) return run.fail("a holder's bit is left");
    }
    for (const SlotNumber slot : slots_) {
      if (manager_.memory().transit(slot).any_live()) return run.fail("a ticket is left");
    }
    if (run.is_dead(0)) return;
    if (!arenas_[0]->is_empty()) arenas_[0]->collect(0);
    if (!arenas_[0]->is_empty()) return run.fail("the owner does not know of a free block");
  }

 protected:
  static constexpr std::uint64_t kSize = 64;

  virtual void act(std::uint32_t process) = 0;

  /// What a process holds.
  struct Held {
    BlockNumber block = 0;
    Generation generation = 0;
    std::uint64_t content = 0;  ///< the bytes with which the block begins
  };

  Held allocate() {
    const BlockNumber block = *arenas_[0]->allocate(kSize);
    const Held held{block, raw(0, block).generation(), ++last_content_};
    std::memcpy(bytes(0, block), &held.content, sizeof held.content);
    use(0, held);
    return held;
  }
  /// While a process holds the block, no other one frees it or uses its bytes for another block.
  void use(std::uint32_t process, const Held& held) {
    std::uint64_t there = 0;
    std::memcpy(&there, bytes(process, held.block), sizeof there);
    run_->expect(raw(process, held.block).live_at_generation(held.generation),
                 "a block that a process holds was freed");
    run_->expect(there == held.content, "a block that a process holds has other bytes");
  }
  void send(std::uint32_t process, const Held& held, std::uint32_t letter) {
    use(process, held);
    letters_[letter].sent = testing::send(*arenas_[process], held.block);
    letters_[letter].content = held.content;
    letters_[letter].state.store(Letter::unread, std::memory_order_release);
  }
  void release(std::uint32_t process, const Held& held) {
    use(process, held);
    arenas_[process]->release(held.block);
  }
  /// Waits until the letter is sent, as long as its sender runs. A message that is loaded twice may
  /// be too late for one of its readers.
  std::optional<Held> receive(std::uint32_t process, std::uint32_t letter, ProcessNumber sender,
                              bool is_only_reader = true) {
    Letter& there = letters_[letter];
    while (there.state.load(std::memory_order_acquire) == Letter::none) {
      if (run_->has_ended(sender)) return std::nullopt;
      pause_processor();
    }
    there.state.store(Letter::read);
    const Held held{there.sent.block, there.sent.generation, there.content};
    const bool received = testing::receive(*arenas_[process], there.sent);
    run_->expect(received || !is_only_reader, "the block of a message was freed");
    if (!received) return std::nullopt;
    use(process, held);
    return held;
  }

  /// Where a block that contains the ticket of another one has it.
  [[nodiscard]] TicketRecord& record_in(std::uint32_t process, BlockNumber block) const {
    return *reinterpret_cast<TicketRecord*>(bytes(process, block) + kContents.first);
  }

  static constexpr TicketContents kContents{
      .kind = TicketContents::Kind::message, .stride = 32, .first = 32, .count = 1};

  const Slots slots_;
  Run* run_ = nullptr;
  std::array<std::unique_ptr<Arena>, kPeers> arenas_;

 private:
  [[nodiscard]] BlockWord raw(std::uint32_t process, BlockNumber block) const {
    return BlockWord(simulation::raw(arenas_[process]->segment().record(block).word));
  }
  [[nodiscard]] std::byte* bytes(std::uint32_t process, BlockNumber block) const {
    return arenas_[process]->bytes(block, Access::read_write).data();
  }
  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    const Segment& segment = arenas_[0]->segment();
    Places& places = Places::get();
    for (BlockNumber block = 0; block < segment.capacity(); ++block) {
      const std::string number = " of block " + std::to_string(block);
      places.name(&segment.record(block).word, "word" + number);
      places.name(&segment.holders(0, block), "holders" + number);
      places.name(&segment.senders(0, block), "senders" + number);
    }
    for (std::uint32_t i = 0; i < kPeers; ++i) {
      places.name(&manager_.memory().transit(slots_[i]).groups[0].word,
                  "tickets of process " + std::to_string(i));
    }
    for (std::uint32_t i = 0; i < kLetters; ++i) {
      places.name(&letters_[i].state, "letter " + std::to_string(i));
    }
    places.name(&segment.header().freed_top, "freed map");
    places.name(&segment.header().planes, "planes");
    places.name(&manager_.memory().header().deaths, "count of deaths");
  }

  Manager manager_;
  Notices notices_;
  std::array<std::unique_ptr<Peer>, kPeers> peers_;
  std::array<Letter, kLetters> letters_;
  std::uint64_t last_content_ = 0;
};

/// A block goes from its owner to a second process, and from there to a third.
class Forward final : public BlockWorld {
  void act(std::uint32_t process) override {
    if (process == 0) {
      const Held held = allocate();
      send(0, held, 0);
      release(0, held);
      return;
    }
    const auto held = receive(process, process - 1, process - 1);
    if (!held) return;
    if (process == 1) send(1, *held, 1);
    release(process, *held);
  }
};
const Register<Forward> forward("blocks/forward");

/// Two messages of one block, to two processes.
class TwoReceivers final : public BlockWorld {
  void act(std::uint32_t process) override {
    if (process != 0) {
      if (const auto held = receive(process, process - 1, 0)) release(process, *held);
      return;
    }
    const Held held = allocate();
    send(0, held, 0);
    send(0, held, 1);
    release(0, held);
  }
};
const Register<TwoReceivers> two_receivers("blocks/two receivers");

/// Two processes load the same message; the record of the block is used again.
class LoadedTwice final : public BlockWorld {
  void act(std::uint32_t process) override {
    if (process != 0) {
      if (const auto held = receive(process, 0, 0, false)) release(process, *held);
      return;
    }
    const Held first = allocate();
    send(0, first, 0);
    release(0, first);
    release(0, allocate());
  }
};
const Register<LoadedTwice> loaded_twice("blocks/loaded twice");

/// The bits of the last process are in a plane of their own, which it announces during the run.
class NewPlane final : public BlockWorld {
 public:
  NewPlane() : BlockWorld({0, 1, 64}) {}

 private:
  void act(std::uint32_t process) override {
    if (process == 2) arenas_[2]->segment().ensure_plane(slots_[2]);
    if (process != 0) {
      if (const auto held = receive(process, process - 1, 0)) release(process, *held);
      return;
    }
    const Held held = allocate();
    send(0, held, 1);
    release(0, held);
  }
};
const Register<NewPlane> new_plane("blocks/new plane");

/// A receiver forks while it holds the block. Its child's bits are in an earlier plane.
class Fork final : public BlockWorld {
 public:
  Fork() : BlockWorld({0, 64, 1}) {}

 private:
  void act(std::uint32_t process) override {
    if (process == 2) return be_child();
    if (process == 1) {
      arenas_[1]->segment().ensure_plane(slots_[1]);
      const auto held = receive(1, 0, 0);
      if (!held) return;
      arenas_[1]->hold_for_child(slots_[2]);
      held_ = held;
      return release(1, *held);
    }
    const Held held = allocate();
    send(0, held, 0);
    release(0, held);
    release(0, allocate());
  }
  void be_child() {
    run_->wait_until([this] { return held_ || run_->has_ended(1); });
    if (!held_) run_->kill();  // so that its slot is reclaimed
    {
      LocalTable::Lock lock(arenas_[2]->local(), held_->block);
      lock.set_count(1);  // as in the copy of the parent's memory
    }
    release(2, *held_);
  }

  std::optional<Held> held_;  // by the parent when it forked
};
const Register<Fork> fork_program("blocks/fork");

/// Two threads of a process receive the same block.
class Threads final : public BlockWorld {
 public:
  void start(Run& run) override {
    BlockWorld::start(run);
    run.add_thread(1, [this] { receive_and_release(1); });
  }

 private:
  void act(std::uint32_t process) override {
    if (process == 1) return receive_and_release(0);
    if (process != 0) return;
    const Held held = allocate();
    send(0, held, 0);
    send(0, held, 1);
    release(0, held);
    release(0, allocate());
  }
  void receive_and_release(std::uint32_t letter) {
    if (const auto held = receive(1, letter, 0)) release(1, *held);
  }
};
const Register<Threads> threads("blocks/threads");

/// A block that contains the ticket of another one, as a queue does; its message is loaded twice.
class Contents final : public BlockWorld {
  void act(std::uint32_t process) override {
    if (process != 0) {
      const auto outer = receive(process, 0, 0, false);
      if (!outer) return;
      if (process == 1) claim_inner(*outer);
      return release(process, *outer);
    }
    const Held inner = allocate();
    const Held outer = allocate();
    record_in(0, outer.block).clear();
    arenas_[0]->set_contents(outer.block, kContents);
    static_cast<void>(arenas_[0]->send(inner.block, record_in(0, outer.block)));
    release(0, inner);
    send(0, outer, 0);
    release(0, outer);
    // Their records are used again.
    release(0, allocate());
    release(0, allocate());
  }
  void claim_inner(const Held& outer) {
    const std::optional<NamedTicket> named = record_in(1, outer.block).read();
    run_->expect(named.has_value(), "a message lacks its ticket");
    const bool received =
        testing::receive(*arenas_[1], {named->block, named->generation, named->ticket});
    run_->expect(received, "the block of a message was freed");
    arenas_[1]->release(named->block);
  }
};
const Register<Contents> contents("blocks/contents");

}  // namespace
}  // namespace shmtensor::simulation
