// Copying into warm and cold blocks.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "support/world.hpp"

namespace shmtensor::bench {

using testing::World;
namespace {

void copy_private(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  std::vector<std::byte> to(size);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_private)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

void copy_into_warm(benchmark::State& state) {
  World world;
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  world.arena->release(*world.arena->allocate(size));
  for (auto _ : state) {
    const BlockNumber block = *world.arena->allocate_warm(size);
    std::memcpy(world.arena->bytes(block, Access::read_write).data(), from.data(), size);
    benchmark::ClobberMemory();
    world.arena->release(block);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_into_warm)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);

// The pages were released before, so the kernel allocates new ones.
void copy_into_cold(benchmark::State& state) {
  World world;
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  for (auto _ : state) {
    const BlockNumber block = *world.arena->allocate(size);
    std::memcpy(world.arena->bytes(block, Access::read_write).data(), from.data(), size);
    benchmark::ClobberMemory();
    world.arena->release(block);
    state.PauseTiming();
    world.arena->collect(0);
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_into_cold)->Arg(64 << 20)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shmtensor::bench
