// The manager cancels the tickets that an unused block contains, and those in the blocks that this
// frees.
#include "manager/drain.hpp"

#include <gtest/gtest.h>

#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/queue_world.hpp"

namespace shmtensor {
namespace {

using testing::live_tickets;
using testing::Peer;
using testing::used_blocks;
using testing::word_of;

constexpr SlotNumber kNeighbour = 2;

class DrainTest : public testing::QueueWorld {
 protected:
  /// Each arena is of another process: a message in the queue is in a ring, and has a tensor.
  void fill() {
    ring_ = make_container(*rings_, 128);
    message_ = make_container(*messages_, 3);
    tensor_ = *tensors_->allocate(5000);
    tensors_->send(tensor_, entry_in(*messages_, message_, 1).ticket);
    tensors_->release(tensor_);
    messages_->send(message_, entry_in(*rings_, ring_, 77).ticket);
    messages_->release(message_);
    rings_->send(ring_, header().ring(1).ticket);
    rings_->release(ring_);
    EXPECT_EQ(live_tickets(*memory_), 3u);
  }
  /// The last process that had the queue released it; it does not notify the manager.
  void release_queue() {
    arena_->release(queue_);
    EXPECT_TRUE(word_of(*arena_, queue_).is_draining());
  }
  void drain() { registry_.drain(*memory_, arena_->segment().number(), queue_); }
  void expect_nothing_left() const {
    for (const Arena* arena : {arena_.get(), rings_.get(), messages_.get(), tensors_.get()}) {
      EXPECT_EQ(used_blocks(arena->segment()), 0u) << arena->segment().number();
    }
    EXPECT_EQ(live_tickets(*memory_), 0u);
  }

  Peer other_{*memory_, kNeighbour};
  const std::unique_ptr<Arena> rings_ = other_.make_arena();
  const std::unique_ptr<Arena> messages_ = owner_.make_arena(Strategy::file_system);
  const std::unique_ptr<Arena> tensors_ = other_.make_arena();
  BlockNumber ring_ = 0;
  BlockNumber message_ = 0;
  BlockNumber tensor_ = 0;

  ~DrainTest() override { unlink_shm(arena_name(memory_->id(), messages_->segment().number())); }
};

TEST_F(DrainTest, FreesWhatIsNested) {
  for (const Arena* arena : {rings_.get(), messages_.get(), tensors_.get()})
    add_to(registry_, *arena);
  fill();
  release_queue();
  drain();
  expect_nothing_left();
  // The owner allocates the same records again.
  EXPECT_EQ(*arena_->allocate(sizeof(QueueHeader)), queue_);
  EXPECT_EQ(arena_->segment().record(queue_).contents.load(), 0u);
}

TEST_F(DrainTest, OfABlockInUseDoesNothing) {
  add_to(registry_, *rings_);
  fill();
  drain();
  EXPECT_EQ(live_tickets(*memory_), 3u);
  registry_.drain(*memory_, arena_->segment().number(), 4095);
  registry_.drain(*memory_, arena_->segment().number(), ~BlockNumber{0});
  registry_.drain(*memory_, 999, 0);
  EXPECT_TRUE(is_live(queue_));
}

// Any of the four may be held by a process, which frees it later.
TEST_F(DrainTest, StopsAtWhatIsHeld) {
  for (const Arena* arena : {rings_.get(), messages_.get(), tensors_.get()})
    add_to(registry_, *arena);
  fill();
  const auto view = other_.open_arena(tensors_->segment());
  ASSERT_TRUE(take(*view, *entry_in(*messages_, message_, 1).ticket.read()));
  release_queue();
  drain();
  EXPECT_EQ(live_tickets(*memory_), 0u);
  EXPECT_TRUE(word_of(*tensors_, tensor_).live());
  EXPECT_EQ(used_blocks(messages_->segment()), 0u);
  view->release(tensor_);
  expect_nothing_left();
}

// A manager that was killed after any number of steps.
TEST_F(DrainTest, IsFinishedByTheNextManager) {
  for (int done = 0; done <= 3; ++done) {
    fill();
    const auto cancel = [&](const TicketRecord& record, Arena& arena, FreeResult expected) {
      const auto named = *record.read();
      ASSERT_TRUE(memory_->transit(named.ticket.sender)
                      .claim(named.ticket, named.arena, named.block, named.generation));
      EXPECT_EQ(try_free(arena.segment(), named.block, *memory_), expected);
    };
    const TicketRecord& of_ring = header().ring(1).ticket;
    const TicketRecord& of_message = entry_in(*rings_, ring_, 77).ticket;
    const TicketRecord& of_tensor = entry_in(*messages_, message_, 1).ticket;
    release_queue();
    if (done >= 1) cancel(of_ring, *rings_, FreeResult::draining);
    if (done >= 2) cancel(of_message, *messages_, FreeResult::draining);
    if (done >= 3) cancel(of_tensor, *tensors_, FreeResult::freed);
    ArenaRegistry next;
    for (const Arena* arena : {tensors_.get(), messages_.get(), rings_.get(), arena_.get()}) {
      add_to(next, *arena);
    }
    expect_nothing_left();
    queue_ = make_queue(*arena_);
  }
  arena_->release(queue_);
}

// The manager learns of an arena only when a process registers it.
TEST_F(DrainTest, ReachesAnArenaWhenItIsRegistered) {
  fill();
  release_queue();
  drain();
  EXPECT_EQ(used_blocks(arena_->segment()), 0u);
  EXPECT_EQ(used_blocks(rings_->segment()), 1u);
  for (const Arena* arena : {rings_.get(), messages_.get(), tensors_.get()})
    add_to(registry_, *arena);
  expect_nothing_left();
}

// A manager that takes over knows all arenas before it repairs the first: the queue is in one, the
// ring with a dead producer's ticket in the next.
TEST_F(DrainTest, AQueueIsRepairedWhenItsRingsAreKnown) {
  Peer doomed(*memory_, kDead);
  const auto queue_view = doomed.open_arena(arena_->segment());
  const auto ring_view = doomed.open_arena(rings_->segment());
  share(*queue_view, queue_);
  ring_ = make_container(*rings_, 128);
  header().ring(1).strategy.store(Strategy::file_descriptor);
  rings_->send(ring_, header().ring(1).ticket);
  rings_->release(ring_);
  header().tail.ring.store(1);
  tensor_ = *tensors_->allocate(100);
  tensors_->send(tensor_, entry_in(*rings_, ring_, 0).ticket);
  tensors_->release(tensor_);
  header().tail.lock.store(kDead + 1u);
  std::vector<ArenaRegistry::Found> found;
  for (const Arena* arena : {arena_.get(), rings_.get(), tensors_.get()}) {
    found.push_back({copy_of(*arena), true});
  }
  ArenaRegistry next;
  next.add(std::move(found), *memory_, SlotSet(kDead));
  EXPECT_EQ(header().tail.lock.load(), 0u);
  EXPECT_TRUE(word_of(*tensors_, tensor_).is_free()) << "the message was not put";
  EXPECT_TRUE(word_of(*rings_, ring_).live());
  arena_->release(queue_);
  next.drain(*memory_, arena_->segment().number(), queue_);
  expect_nothing_left();
}

// Any process can write any number.
TEST_F(DrainTest, DamagedDescriptionsCancelNothingElse) {
  for (const Arena* arena : {rings_.get(), messages_.get(), tensors_.get()})
    add_to(registry_, *arena);
  const BlockNumber kept = *tensors_->allocate(100);
  const auto kind = std::uint64_t{1} << 56;
  for (const std::uint64_t contents :
       {kind | 0xffffffff,                                           // stride 0
        kind | std::uint64_t{4} << 48 | 0xffffffff,                  // more than fit
        kind | std::uint64_t{4} << 48 | std::uint64_t{4} << 32 | 1,  // not aligned
        kind | std::uint64_t{255} << 48 | std::uint64_t{0xfff8} << 32 | 1,
        kind | std::uint64_t{1} << 48, ~std::uint64_t{0}, std::uint64_t{0xff} << 56 | 1,
        std::uint64_t{2} << 56 | std::uint64_t{4} << 48 | 49}) {
    arena_->segment().record(queue_).contents.store(contents);
    release_queue();
    drain();
    EXPECT_TRUE(is_free(queue_)) << contents;
    queue_ = make_queue(*arena_);
  }
  EXPECT_TRUE(word_of(*tensors_, kept).live());
  tensors_->release(kept);
  arena_->release(queue_);
  drain();
  expect_nothing_left();
}

TEST_F(DrainTest, DamagedRecordsCancelNothingElse) {
  add_to(registry_, *tensors_);
  const BlockNumber kept = *tensors_->allocate(100);
  const Ticket ticket = tensors_->send(kept);
  const NamedTicket right{.arena = tensors_->segment().number(),
                          .block = kept,
                          .generation = tensors_->generation(kept),
                          .ticket = ticket};
  std::size_t at = 0;
  const auto write = [&](auto&& change) {
    NamedTicket wrong = right;
    change(wrong);
    header().first_ring.at(at++).ticket.write(wrong);
  };
  write([](NamedTicket& one) { one.ticket.sender = kMaxSlots; });
  write([](NamedTicket& one) { one.ticket.sender = kNoSlot; });
  write([](NamedTicket& one) { one.ticket.sender = kMaxSlots - 1; });
  write([](NamedTicket& one) { one.ticket.group = ~0u; });
  write([](NamedTicket& one) { one.ticket.group = TransitTable::kGroups - 1; });
  write([](NamedTicket& one) { one.ticket.bit = 255; });
  write([](NamedTicket& one) { ++one.ticket.serial; });
  write([](NamedTicket& one) { ++one.generation; });
  write([](NamedTicket& one) { one.block = 4096; });
  write([](NamedTicket& one) { one.block = ~0u; });
  write([](NamedTicket& one) { one.arena = 0; });
  write([](NamedTicket& one) { one.arena = ~0u; });
  release_queue();
  drain();
  EXPECT_TRUE(is_free(queue_));
  EXPECT_EQ(live_tickets(*memory_), 1u);
  tensors_->release(kept);
  EXPECT_TRUE(word_of(*tensors_, kept).live()) << "its ticket is live";
  tensors_->cancel_send(kept, right.generation, ticket);
  expect_nothing_left();
}

TEST_F(DrainTest, BlocksOutsideOfTheFileAreFreedUnread) {
  add_to(registry_, *messages_);
  struct Damage {
    std::uint64_t offset;
    std::uint64_t size;
  };
  for (Arena* arena : {arena_.get(), messages_.get()}) {
    for (const Damage& damage : {Damage{0, ~0ULL}, Damage{~0ULL, sizeof(QueueHeader)},
                                 Damage{~0ULL - 64, 128}, Damage{0, kGiB}, Damage{63 * kMiB, kMiB},
                                 Damage{32, sizeof(QueueHeader)}, Damage{7, 8192}}) {
      const BlockNumber block = make_queue(*arena);
      const BlockRecord& record = arena->segment().record(block);
      const std::uint64_t offset = record.offset.load();
      const std::uint64_t size = record.size.load();
      arena->segment().record(block).offset.store(damage.offset);
      arena->segment().record(block).size.store(damage.size);
      arena->release(block);
      registry_.drain(*memory_, arena->segment().number(), block);
      EXPECT_TRUE(word_of(*arena, block).is_free()) << damage.offset << " " << damage.size;
      arena->segment().record(block).offset.store(offset);
      arena->segment().record(block).size.store(size);
    }
  }
}

// A named object can be shortened by any process of the user: reading past its end is fatal.
TEST_F(DrainTest, AShortenedFileIsNotRead) {
  add_to(registry_, *messages_);
  const BlockNumber block = make_queue(*messages_);
  const std::string name = arena_name(memory_->id(), messages_->segment().number());
  const Fd file = open_shm(name);
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(messages_->segment().layout().data())), 0);
  testing::in_child([&] {
    messages_->segment().holders(0, block).store(0);
    EXPECT_EQ(try_free(messages_->segment(), block, *memory_), FreeResult::draining);
    registry_.drain(*memory_, messages_->segment().number(), block);
    EXPECT_TRUE(word_of(*messages_, block).is_free());
  });
}

// Descriptors are short: the blocks wait until they can be mapped.
TEST_F(DrainTest, ABlockThatCannotBeMappedNowStaysDraining) {
  add_to(registry_, *messages_);
  add_to(registry_, *tensors_);
  const BlockNumber block = make_container(*messages_, 2);
  tensor_ = *tensors_->allocate(100);
  tensors_->send(tensor_, entry_in(*messages_, block, 0).ticket);
  tensors_->release(tensor_);
  messages_->release(block);
  const std::string name = arena_name(memory_->id(), messages_->segment().number());
  const std::string other = name + "-moved";
  ASSERT_EQ(::rename(("/dev/shm/" + name).c_str(), ("/dev/shm/" + other).c_str()), 0);
  registry_.drain(*memory_, messages_->segment().number(), block);
  EXPECT_TRUE(word_of(*messages_, block).is_draining());
  EXPECT_TRUE(word_of(*tensors_, tensor_).live());
  ASSERT_EQ(::rename(("/dev/shm/" + other).c_str(), ("/dev/shm/" + name).c_str()), 0);
  sweep(kNeighbour + 1);
  EXPECT_EQ(used_blocks(messages_->segment()), 0u);
  EXPECT_EQ(used_blocks(tensors_->segment()), 0u);
}

// A message that was put into a queue which is in another queue, and so on.
TEST_F(DrainTest, ALongChainIsFreed) {
  constexpr std::uint32_t kQueues = 500;
  BlockNumber inner = make_queue(*arena_);
  for (std::uint32_t i = 0; i < kQueues; ++i) {
    const BlockNumber outer = make_queue(*arena_);
    arena_->send(inner, header_in(*arena_, outer).first_ring[i % 32].ticket);
    arena_->release(inner);
    inner = outer;
  }
  EXPECT_EQ(used_blocks(arena_->segment()), kQueues + 2u);
  arena_->release(inner);
  registry_.drain(*memory_, arena_->segment().number(), inner);
  EXPECT_EQ(used_blocks(arena_->segment()), 1u);
  EXPECT_EQ(live_tickets(*memory_), 0u);
}

// `gc` cancels only tickets that are not in a queue, but what it frees may contain tickets.
TEST_F(DrainTest, CollectKeepsTheMessagesOfAQueue) {
  for (const Arena* arena : {rings_.get(), messages_.get(), tensors_.get()})
    add_to(registry_, *arena);
  for (const SlotNumber slot : {SlotNumber{0}, kNeighbour})
    memory_->slot(slot).incarnation.store(1);
  fill();
  EXPECT_EQ(registry_.collect(*memory_, 0), 0u);
  EXPECT_EQ(live_tickets(*memory_), 3u);
  static_cast<void>(arena_->send(queue_));
  arena_->release(queue_);
  EXPECT_EQ(registry_.collect(*memory_, 0), 1u);
  expect_nothing_left();
}

}  // namespace
}  // namespace shmtensor
