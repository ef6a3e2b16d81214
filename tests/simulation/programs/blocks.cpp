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

/// A message on its way, in a pipe that is not simulated.
struct Letter {
  enum State : std::uint32_t { none, unread, read };

  Atomic<std::uint32_t> state{none};
  Sent sent;
  std::uint64_t content = 0;
};

class BlockWorld : public Program {
 public:
  explicit BlockWorld(SlotNumber last_slot = kPeers - 1) : slots_{0, 1, last_slot} {}

  void build() override {
    for (std::uint32_t i = 0; i < kPeers; ++i) {
      peers_[i] = std::make_unique<Peer>(manager_.memory(), slots_[i]);
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
    for (const Letter& letter : letters_) {
      if (letter.state.load() != Letter::unread) continue;
      const BlockWord word(segment.record(letter.sent.block).word.load());
      if (!word.live_at_generation(letter.sent.generation)) {
        return run.fail("the block of an unread message was freed");
      }
    }
    manager_.arenas().collect(manager_.memory(), 0);
    if (testing::live_blocks(segment) != 0) return run.fail("a block is left");
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

  Run* run_ = nullptr;
  std::array<std::unique_ptr<Arena>, kPeers> arenas_;

 private:
  [[nodiscard]] BlockWord raw(std::uint32_t process, BlockNumber block) const {
    std::uint64_t word = 0;
    std::memcpy(&word, &arenas_[process]->segment().record(block).word, sizeof word);
    return BlockWord(word);
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

  const std::array<SlotNumber, kPeers> slots_;
  Manager manager_;
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
  static constexpr SlotNumber kSlot = 64;

 public:
  NewPlane() : BlockWorld(kSlot) {}

 private:
  void act(std::uint32_t process) override {
    if (process == 2) arenas_[2]->segment().ensure_plane(kSlot);
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

}  // namespace
}  // namespace shmtensor::simulation
