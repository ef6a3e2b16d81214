// A member of the session writes anything into arenas and the session's memory between the calls of
// another, which allocates in its own arena, receives from the writer's, sends and releases. Each
// call ends, with a result or an error, and reads nothing outside of the mappings.
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "arena/arena.hpp"
#include "arena/session_memory.hpp"
#include "base/error.hpp"
#include "input.hpp"
#include "os/random.hpp"
#include "patch.hpp"

using namespace shmtensor;

namespace {

constexpr SegmentLayout kSmall{4096, 64 << 20};
constexpr SlotNumber kMe = 1;
constexpr SlotNumber kPeer = 2;

struct Sent {
  Arena* arena;
  BlockNumber block;
  Generation generation;
  Ticket ticket;
};

struct Held {
  Arena* arena;
  BlockNumber block;
};

Sent send(Arena& seen_as, Arena& sender, BlockNumber block) {
  const Generation generation = sender.generation(block);
  return {&seen_as, block, generation, sender.send(block)};
}

/// Returns one of the items, chosen by the input; there is at least one.
template <typename Element>
Element& choose(std::vector<Element>& from, fuzz::Input& input) {
  return from[input.take<std::uint8_t>() % from.size()];
}

void receive(const Sent& sent, std::vector<Held>& held) {
  if (sent.block >= sent.arena->segment().capacity()) return;  // as in `receive_storage`
  TransitTable& transit = sent.arena->memory().transit(sent.ticket.sender);
  bool good = false;
  {
    LocalTable::Lock lock(sent.arena->local(), sent.block);
    const ArenaNumber number = sent.arena->segment().number();
    good = sent.arena->hold(lock, {number, sent.block, sent.generation, sent.ticket}, &transit);
  }
  if (good) {
    held.push_back({sent.arena, sent.block});
  } else {
    sent.arena->unpin_and_try_free(sent.block);
  }
}

class World {
 public:
  World() {
    for (const SlotNumber slot : {kMe, kPeer}) {
      memory_->slot(slot).incarnation.store(1);
      memory_->slot(slot).status.store(SlotStatus::active);
    }
    auto own = create(kMe);
    auto peers = create(kPeer);
    own_file_ = (*own->file()).duplicate();
    peers_file_ = (*peers->file()).duplicate();
    arena_ = std::make_unique<Arena>(std::move(own), me_, &budget_);
    peers_ = std::make_unique<Arena>(std::move(peers), peer_, &budget_);
    theirs_ =
        std::make_unique<Arena>(Segment::open(id_, kPeer, peers_file_.duplicate()), me_, nullptr);
    theirs_->segment().ensure_plane(kMe);
    for (const std::uint64_t size : {64u, 4096u, 100'000u}) {
      sent_.push_back(send(*theirs_, *peers_, *peers_->allocate(size)));
    }
    add_targets(own_file_, *arena_);
    add_targets(peers_file_, *theirs_);
    targets_.push_back(
        {memory_->file(), 0, offsetof(SessionHeader, slots) + 4 * sizeof(SlotRecord)});
    for (const SlotNumber sender : {kMe, kPeer}) add_transit(sender);
  }

  void step(fuzz::Input& input) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0: {
        const auto size = std::uint64_t{1} << input.take<std::uint8_t>() % 22;
        if (const auto block = arena_->allocate(size)) held_.push_back({arena_.get(), *block});
        break;
      }
      case 1:
        if (!held_.empty()) drop(choose(held_, input));
        break;
      case 2:
        if (!held_.empty()) {
          const Held& one = choose(held_, input);
          sent_.push_back(send(*one.arena, *one.arena, one.block));
        }
        break;
      case 3:
        receive(choose(sent_, input), held_);
        break;
      case 4: {
        Sent made_up = choose(sent_, input);
        made_up.block ^= input.take<BlockNumber>();
        made_up.ticket.group = input.take<std::uint8_t>();
        made_up.ticket.serial = input.take<std::uint8_t>();
        receive(made_up, held_);
        break;
      }
      case 5: {
        const Sent& one = choose(sent_, input);
        one.arena->cancel_send(one.block, one.generation, one.ticket);
        break;
      }
      case 6:
        if (!held_.empty()) {
          const Held& one = choose(held_, input);
          static_cast<void>(one.arena->bytes(one.block, Access::read_only));
        }
        break;
      default:
        arena_->collect(0);
    }
  }

  void patch(fuzz::Input& input) { fuzz::patch(choose(targets_, input), input); }

  ~World() {
    while (!held_.empty()) drop(held_.back());
  }

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  [[nodiscard]] std::unique_ptr<Segment> create(SlotNumber owner) const {
    return Segment::create(id_, owner, owner, 1, Strategy::file_descriptor, kSmall);
  }

  void add_targets(const Fd& file, const Arena& arena) {
    const SegmentLayout& layout = arena.segment().layout();
    targets_.push_back({file, 0, sizeof(ArenaHeader)});
    targets_.push_back({file, layout.records(), 8 * sizeof(BlockRecord)});
    targets_.push_back({file, layout.holders(0), 64});
    targets_.push_back({file, layout.senders(0), 64});
    targets_.push_back({file, layout.freed(), 256});
    targets_.push_back({file, layout.freed() + kSmall.max_blocks / 8, 64});
  }

  void add_transit(SlotNumber sender) {
    const std::uint64_t table = SessionMemory::transit_offset(sender);
    targets_.push_back({memory_->file(), table, 8});
    for (const ArenaNumber arena : {kMe, kPeer}) {
      const auto first = TransitTable::bucket_of(TransitTable::block_key(arena, 0));
      targets_.push_back(
          {memory_->file(), table + offsetof(TransitTable, buckets) + first * 8, 64});
    }
    targets_.push_back(
        {memory_->file(), table + offsetof(TransitTable, groups), 8 * sizeof(TicketGroup)});
  }

  void drop(Held& one) {
    one.arena->release(one.block);
    one = held_.back();
    held_.pop_back();
  }

  const SessionId id_{random_word(), random_word()};
  const std::unique_ptr<SessionMemory> memory_ = SessionMemory::create(id_);
  const Member me_{*memory_, kMe};
  const Member peer_{*memory_, kPeer};
  Budget budget_;
  Fd own_file_;
  Fd peers_file_;
  std::unique_ptr<Arena> arena_;   // the tested member's
  std::unique_ptr<Arena> peers_;   // the writer's
  std::unique_ptr<Arena> theirs_;  // the writer's, as attached by the tested member
  std::vector<fuzz::Target> targets_;
  std::vector<Sent> sent_;
  std::vector<Held> held_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  World world;
  for (int steps = 0; steps < 256 && !input.empty(); ++steps) {
    try {
      if (input.take<std::uint8_t>() % 2 == 0) {
        world.patch(input);
      } else {
        world.step(input);
      }
    } catch (const Error&) {
      // refused, and the next call is served
    }
  }
  return 0;
}
