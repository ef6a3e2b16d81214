// SIGKILL at any instruction loses no block and frees none too early.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "arena/arena.hpp"
#include "arena/reclaim.hpp"
#include "support/child.hpp"
#include "support/mailbox.hpp"
#include "support/shared.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Mailbox;
using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;
using testing::Shared;

constexpr SlotNumber kWorkers = 3;
constexpr std::uint64_t kSize = 512;

struct Storm {
  Mailbox mail;
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> wrong;  ///< blocks with the bytes of another block
};

void fill(Arena& arena, BlockNumber block, std::uint64_t value) {
  auto* words = reinterpret_cast<std::uint64_t*>(arena.bytes(block, Access::read_write).data());
  for (std::uint64_t i = 0; i < kSize / 8; ++i) words[i] = value;
}

bool reads(Arena& arena, BlockNumber block, std::uint64_t value) {
  const auto* words =
      reinterpret_cast<const std::uint64_t*>(arena.bytes(block, Access::read_only).data());
  for (std::uint64_t i = 0; i < kSize / 8; ++i) {
    if (words[i] != value) return false;
  }
  return true;
}

// Receives, checks and forwards blocks, and loads some messages twice, until it is killed.
void work(Storm& storm, Arena& arena, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Mailbox::Letter> held;
  std::vector<Mailbox::Letter> old(1);
  while (true) {
    const std::uint32_t choice = random() % 8;
    if (choice < 3) {
      if (const auto letter = storm.mail.take(); letter && receive(arena, letter->sent)) {
        held.push_back(*letter);
        old[0] = *letter;
      }
    } else if (choice < 5 && !held.empty()) {
      Mailbox::Letter letter = held[random() % held.size()];
      letter.sent = send(arena, letter.sent.block);
      if (!storm.mail.put(letter)) {
        arena.cancel_send(letter.sent.block, letter.sent.generation, letter.sent.ticket);
      }
    } else if (choice < 6) {
      if (old[0].value != 0 && receive(arena, old[0].sent)) held.push_back(old[0]);
    } else if (!held.empty()) {
      const std::size_t at = random() % held.size();
      if (!reads(arena, held[at].sent.block, held[at].value)) storm.wrong.fetch_add(1);
      arena.release(held[at].sent.block);
      held[at] = held.back();
      held.pop_back();
    }
    storm.operations.fetch_add(1);
  }
}

class ArenaKills : public testing::WorldTest {};

TEST_F(ArenaKills, LoseNoBlockAndFreeNoneTooEarly) {
  Peer peer(*memory_, 0);
  const auto arena = peer.make_arena();
  Shared<Storm> storm;
  std::mt19937 random(4711);
  std::array<std::unique_ptr<Child>, kWorkers> workers;
  const auto start = [&](SlotNumber worker) {
    workers[worker] = std::make_unique<Child>([&, worker, seed = random()] {
      Peer mine(*memory_, static_cast<SlotNumber>(worker + 1));
      const auto view = mine.open_arena(arena->segment());
      work(*storm, *view, static_cast<std::uint32_t>(seed));
    });
  };
  const auto swept = [&](SlotNumber worker) {
    sweep(
        arena->segment(), *memory_, static_cast<SlotNumber>(worker + 1), [](BlockNumber) {},
        [&](BlockNumber block, FreeResult) { arena->segment().freed().mark(block); });
    memory_->header().deaths.fetch_add(1);
  };
  std::uint64_t value = 0;
  // The owner sends blocks and reads what is returned.
  const auto feed = [&] {
    for (int i = 0; i < 20; ++i) {
      const auto block = arena->allocate(kSize);
      if (!block) break;
      fill(*arena, *block, ++value);
      const Sent sent = send(*arena, *block);
      if (!storm->mail.put({1, sent, value})) {
        arena->cancel_send(*block, sent.generation, sent.ticket);
      }
      arena->release(*block);
    }
    if (const auto letter = storm->mail.take(); letter && receive(*arena, letter->sent)) {
      EXPECT_TRUE(reads(*arena, letter->sent.block, letter->value));
      arena->release(letter->sent.block);
    }
  };
  for (SlotNumber worker = 0; worker < kWorkers; ++worker) start(worker);
  constexpr int kKills = 60;
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    const std::uint64_t before = storm->operations.load();
    feed();
    EXPECT_TRUE(testing::eventually([&] { return storm->operations.load() > before + 200; }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));
    const auto worker = static_cast<SlotNumber>(random() % kWorkers);
    workers[worker]->kill_and_reap();
    swept(worker);
    start(worker);
  }
  for (SlotNumber worker = 0; worker < kWorkers; ++worker) {
    workers[worker]->kill_and_reap();
    swept(worker);
  }
  EXPECT_EQ(storm->wrong.load(), 0u);

  // Consume all unread messages; then every block is free.
  for (SlotNumber slot = 0; slot <= kWorkers; ++slot) {
    memory_->transit(slot).for_each_live([](std::uint32_t, TicketGroup& group, std::uint32_t) {
      group.word.fetch_and(~std::uint64_t{0xffffffff});
    });
  }
  swept(0);
  arena->collect(0);
  EXPECT_EQ(testing::live_blocks(arena->segment()), 0u);
  EXPECT_EQ(arena->reserved(), 0u);
  EXPECT_FALSE(arena->in_use());
}

}  // namespace
}  // namespace shmtensor
