// Threads that send blocks to one another. They share one mapping, so the thread sanitizer checks
// that holders and tickets alone order accesses to a block's bytes.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "arena/arena.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;

// A letter may not be visible before its ticket. The thread sanitizer, which does not support
// fences, should see no order but the ticket's; it runs on machines that keep stores in order.
void in_order() {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Letters whose order is relaxed: all ordering between sender and receiver is the ticket's.
class LooseMailbox {
 public:
  bool put(const Sent& sent, std::uint32_t value) {
    Place& place = places_[next_.fetch_add(1, std::memory_order_relaxed) % places_.size()];
    int empty = 0;
    if (!place.state.compare_exchange_strong(empty, 1, std::memory_order_relaxed)) return false;
    const auto store = [](auto& to, auto from) { to.store(from, std::memory_order_relaxed); };
    store(place.block, sent.block);
    store(place.generation, sent.generation);
    store(place.group, sent.ticket.group);
    store(place.serial, sent.ticket.serial);
    store(place.bit, std::uint32_t{sent.ticket.bit});
    store(place.value, value);
    in_order();
    store(place.state, 2);
    return true;
  }
  bool take(std::uint32_t at, Sent& sent, std::uint32_t& value) {
    Place& place = places_[at % places_.size()];
    int full = 2;
    if (!place.state.compare_exchange_strong(full, 1, std::memory_order_relaxed)) return false;
    const auto load = [](const auto& from) { return from.load(std::memory_order_relaxed); };
    sent = {load(place.block), load(place.generation),
            Ticket{0, static_cast<std::uint8_t>(load(place.bit)), load(place.group),
                   load(place.serial)}};
    value = load(place.value);
    place.state.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Place {
    std::atomic<int> state{0};
    std::atomic<std::uint32_t> block, generation, group, serial, bit, value;
  };
  std::array<Place, 16> places_;
  std::atomic<std::uint32_t> next_{0};
};

class ArenaThreads : public testing::WorldTest {
 protected:
  Peer peer_{*memory_, 0};
  const std::unique_ptr<Arena> arena_ = peer_.make_arena();
};

TEST_F(ArenaThreads, BytesAreOrderedByTheirBlock) {
  constexpr std::uint32_t kBlocks = 4'000;
  LooseMailbox mail;
  std::atomic<std::uint32_t> received{0};
  std::atomic<std::uint32_t> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t i = 1; i <= kBlocks; ++i) {
          const std::uint32_t value = i * 2 + t;
          const BlockNumber block = *arena_->allocate(64);
          // Plain writes into memory that another thread has just freed.
          auto* words =
              reinterpret_cast<std::uint32_t*>(arena_->bytes(block, Access::read_write).data());
          for (int w = 0; w < 16; ++w) words[w] = value;
          const Sent sent = send(*arena_, block);
          while (!mail.put(sent, value)) std::this_thread::yield();
          arena_->release(block);
        }
      });
    }
    for (std::uint32_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        Sent sent;
        std::uint32_t value = 0;
        for (std::uint32_t at = t; received.load() < 2 * kBlocks; ++at) {
          if (!mail.take(at, sent, value)) {
            if (at % 16 == 0) std::this_thread::yield();
            continue;
          }
          if (!receive(*arena_, sent)) {
            wrong.fetch_add(1);
          } else {
            const auto* words = reinterpret_cast<const std::uint32_t*>(
                arena_->bytes(sent.block, Access::read_write).data());
            for (int w = 0; w < 16; ++w) wrong.fetch_add(words[w] != value ? 1 : 0);
            arena_->release(sent.block);
          }
          received.fetch_add(1);
        }
      });
    }
  }
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(testing::live_blocks(arena_->segment()), 0u);
  EXPECT_FALSE(arena_->in_use());
}

// All threads simultaneously hold and release one block, and load its messages again, also stale
// ones.
TEST_F(ArenaThreads, StaleHandlesDisturbNoOtherThread) {
  constexpr int kRounds = 1'500;
  std::atomic<std::uint64_t> current{0};  // generation:32 | block:32
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> stale{0};
  std::atomic<std::uint64_t> good{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (!stop.load()) {
          const std::uint64_t now = current.load();
          const Sent guess{static_cast<BlockNumber>(now), static_cast<Generation>(now >> 32), {}};
          if (receive(*arena_, guess)) {
            EXPECT_EQ(arena_->generation(guess.block), guess.generation);
            arena_->release(guess.block);
            good.fetch_add(1);
          } else {
            stale.fetch_add(1);
          }
        }
      });
    }
    for (int i = 0; i < kRounds || stale.load() == 0 || good.load() == 0; ++i) {
      const BlockNumber block = *arena_->allocate(64);
      current.store(std::uint64_t{arena_->generation(block)} << 32 | block);
      if (i % 3 == 0) std::this_thread::yield();
      arena_->release(block);
    }
    stop.store(true);
  }
  EXPECT_EQ(testing::live_blocks(arena_->segment()), 0u);
  EXPECT_FALSE(arena_->in_use());
}

}  // namespace
}  // namespace shmtensor
