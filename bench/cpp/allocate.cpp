// Allocating and freeing a block, by size; growing an arena.
#include <benchmark/benchmark.h>

#include <vector>

#include "support/world.hpp"

namespace shmtensor::bench {

using testing::World;
namespace {

void allocate_and_free(benchmark::State& state) {
  World world;
  const auto size = static_cast<std::uint64_t>(state.range(0));
  world.arena->release(*world.arena->allocate(size));
  for (auto _ : state) {
    world.arena->release(*world.arena->allocate_warm(size));
  }
}
BENCHMARK(allocate_and_free)->Arg(64)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

// The same while that many other blocks are live.
void allocate_among(benchmark::State& state) {
  World world;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    benchmark::DoNotOptimize(world.arena->allocate(64));
  }
  world.arena->release(*world.arena->allocate(4 * kKiB));
  for (auto _ : state) {
    world.arena->release(*world.arena->allocate_warm(4 * kKiB));
  }
}
BENCHMARK(allocate_among)->Arg(1)->Arg(1'000)->Arg(1'000'000 - 1'000)->Iterations(1'000'000);

void grow(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto world = std::make_unique<World>();
    state.ResumeTiming();
    benchmark::DoNotOptimize(world->arena->allocate(static_cast<std::uint64_t>(state.range(0))));
    state.PauseTiming();
    world.reset();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(grow)->Arg(4 << 10)->Arg(2 << 20)->Arg(64 << 20)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shmtensor::bench
