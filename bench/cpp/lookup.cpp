// Finding the object over the memory at an address.
#include <benchmark/benchmark.h>

#include <vector>

#include "arena/address_map.hpp"
#include "support/world.hpp"

namespace shmtensor::bench {

using testing::Peer;
using testing::set_object;
using testing::World;
namespace {

constexpr std::uint64_t kSize = 4 * kKiB;

/// That many blocks, each with an object, in an order of their addresses that a processor cannot
/// foresee.
struct Objects {
  explicit Objects(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) add();
    for (std::size_t i = addresses.size(); i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(addresses[i - 1], addresses[(state >> 33) % i]);
    }
  }
  void add() {
    const BlockNumber block = *world.arena->allocate(kSize);
    addresses.push_back(world.arena->bytes(block, Access::read_write).data());
    set_object(*world.arena, block, this);
  }
  [[nodiscard]] bool find(std::size_t i, std::uint64_t offset) const {
    return AddressMap::get().find(addresses[i % addresses.size()] + offset,
                                  [](void*) { return true; }) != nullptr;
  }

  World world;
  std::vector<const std::byte*> addresses;
  std::uint64_t state = 1;
};

void find_object(benchmark::State& state) {
  const Objects objects(state.range(0));
  if (!objects.find(0, 0)) state.SkipWithError("not found");
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(objects.find(i++, kSize / 2));
}
BENCHMARK(find_object)->Arg(1)->Arg(100)->Arg(10'000)->Arg(1'000'000 - 1'000);

// Private memory, with that many arenas mapped.
void find_nothing(benchmark::State& state) {
  const World world;
  const Peer peer(*world.memory, 1);
  std::vector<std::unique_ptr<Arena>> arenas;
  const BlockNumber block = *world.arena->allocate(kSize);
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    arenas.push_back(peer.open_arena(world.arena->segment()));
    static_cast<void>(arenas.back()->bytes(block, Access::read_write));
  }
  const std::vector<std::byte> memory(64);
  for (auto _ : state) {
    benchmark::DoNotOptimize(AddressMap::get().find(memory.data(), [](void*) { return true; }));
  }
}
BENCHMARK(find_nothing)->Arg(1)->Arg(100);

// What a block costs that gets an object, is looked up, and is freed.
void allocate_and_find(benchmark::State& state) {
  World world;
  const Arena& arena = *world.arena;
  for (auto _ : state) {
    const BlockNumber block = *world.arena->allocate(kSize);
    set_object(arena, block, &world);
    benchmark::DoNotOptimize(AddressMap::get().find(arena.bytes(block, Access::read_write).data(),
                                                    [](void*) { return true; }));
    set_object(arena, block, nullptr);
    world.arena->release(block);
  }
}
BENCHMARK(allocate_and_find);

}  // namespace
}  // namespace shmtensor::bench
