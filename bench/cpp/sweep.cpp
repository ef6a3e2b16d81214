// The cost of a process death: clearing the bits of a slot over a table of blocks.
#include <benchmark/benchmark.h>

#include <vector>

#include "arena/reclaim.hpp"
#include "support/world.hpp"

namespace shmtensor::bench {

using testing::Peer;
using testing::World;
namespace {

void sweep_dead_slot(benchmark::State& state) {
  World world;
  const Peer peer(*world.memory, 1);
  const auto theirs = peer.open_arena(world.arena->segment());
  std::vector<BlockNumber> blocks;
  for (std::int64_t i = 0; i < state.range(0); ++i) blocks.push_back(*world.arena->allocate(64));
  for (auto _ : state) {
    state.PauseTiming();
    // The dead process held every block; the owner still holds them, so none becomes free.
    for (const BlockNumber block : blocks) {
      world.arena->segment().holders(plane_of(1), block).fetch_or(bit_of(1));
    }
    state.ResumeTiming();
    sweep(theirs->segment(), *world.memory, 1, [](BlockNumber) {}, [](BlockNumber, FreeResult) {});
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sweep_dead_slot)->Arg(1'024)->Arg(65'536)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shmtensor::bench
