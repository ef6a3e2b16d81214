// Acquiring and releasing a block, alone and together with others.
#include <benchmark/benchmark.h>

#include <atomic>
#include <vector>

#include "arena/reclaim.hpp"
#include "support/world.hpp"

namespace shmtensor::bench {

using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;
using testing::World;
namespace {

// One world for all threads of a benchmark; each stands for a process and has its own mappings.
struct Shared {
  World world;
  BlockNumber block = *world.arena->allocate(4 * kKiB);
  Sent sent = send(*world.arena, block);
  std::vector<Sent> neighbours = [this] {
    std::vector<Sent> all;
    for (int i = 0; i < 8; ++i) all.push_back(send(*world.arena, *world.arena->allocate(64)));
    return all;
  }();
};
std::unique_ptr<Shared> g_shared;  // NOLINT: what Google Benchmark's threads can share

void set_up(const benchmark::State&) { g_shared = std::make_unique<Shared>(); }
void tear_down(const benchmark::State&) { g_shared.reset(); }

Peer process_of(const benchmark::State& state) {
  return {*g_shared->world.memory, static_cast<SlotNumber>(state.thread_index() + 1)};
}

// The cost of two atomic operations on a word that no other thread uses: the minimum for acquiring
// a lock and decrementing a count.
void two_atomic_operations(benchmark::State& state) {
  std::atomic<std::uint32_t> word{0};
  for (auto _ : state) {
    std::uint32_t expected = 0;
    benchmark::DoNotOptimize(word.compare_exchange_strong(expected, 1));
    expected = 1;
    benchmark::DoNotOptimize(word.compare_exchange_strong(expected, 0));
  }
}
BENCHMARK(two_atomic_operations);

// The cost of a second object for a block that this process uses already.
void acquire_held(benchmark::State& state) {
  const Peer process = process_of(state);
  const auto arena = process.open_arena(g_shared->world.arena->segment());
  if (!receive(*arena, g_shared->sent)) state.SkipWithError("stale");
  for (auto _ : state) {
    benchmark::DoNotOptimize(receive(*arena, g_shared->sent));
    arena->release(g_shared->block);
  }
  arena->release(g_shared->block);
}
BENCHMARK(acquire_held)->Setup(set_up)->Teardown(tear_down)->ThreadRange(1, 8);

// From nothing to holder and back, without a ticket: the holder bit is set and cleared each time,
// the epoch moves, and the block is checked for freeing.
void acquire_first(benchmark::State& state) {
  const Peer process = process_of(state);
  const auto arena = process.open_arena(g_shared->world.arena->segment());
  for (auto _ : state) {
    benchmark::DoNotOptimize(receive(*arena, g_shared->sent));
    arena->release(g_shared->block);
  }
}
BENCHMARK(acquire_first)->Setup(set_up)->Teardown(tear_down)->ThreadRange(1, 8);

// The same for blocks that were allocated one after the other, each used by one thread.
void acquire_neighbours(benchmark::State& state) {
  const Peer process = process_of(state);
  const auto arena = process.open_arena(g_shared->world.arena->segment());
  const Sent& sent = g_shared->neighbours[static_cast<std::size_t>(state.thread_index())];
  for (auto _ : state) {
    benchmark::DoNotOptimize(receive(*arena, sent));
    arena->release(sent.block);
  }
}
BENCHMARK(acquire_neighbours)->Setup(set_up)->Teardown(tear_down)->ThreadRange(1, 8);

// A block that its owner holds: an attempt to free it fails.
void try_free_held(benchmark::State& state) {
  const World& world = g_shared->world;
  for (auto _ : state) {
    benchmark::DoNotOptimize(try_free(world.arena->segment(), g_shared->block, *world.memory));
  }
}
BENCHMARK(try_free_held)->Setup(set_up)->Teardown(tear_down);

}  // namespace
}  // namespace shmtensor::bench
