// The cost of a message: tickets, and the bytes of a handle.
#include <benchmark/benchmark.h>

#include <array>
#include <span>

#include "base/siphash.hpp"
#include "session/handle.hpp"
#include "support/world.hpp"

namespace shmtensor::bench {

using testing::Peer;
using testing::receive;
using testing::send;
using testing::Sent;
using testing::World;
namespace {

void issue_and_claim(benchmark::State& state) {
  World world;
  const BlockNumber block = *world.arena->allocate(4 * kKiB);
  for (auto _ : state) {
    const Sent sent = send(*world.arena, block);
    benchmark::DoNotOptimize(world.memory->transit(0).claim(
        sent.ticket, world.arena->segment().number(), block, sent.generation));
  }
}
BENCHMARK(issue_and_claim);

// A whole hand-over without Python and the queue: issue, hold, release.
void send_and_receive(benchmark::State& state) {
  World world;
  const Peer peer(*world.memory, 1);
  const auto theirs = peer.open_arena(world.arena->segment());
  const BlockNumber block = *world.arena->allocate(4 * kKiB);
  for (auto _ : state) {
    if (!receive(*theirs, send(*world.arena, block))) state.SkipWithError("stale");
    theirs->release(block);
  }
}
BENCHMARK(send_and_receive);

// The same with a new block each time, which the receiver frees.
void send_fresh_and_receive(benchmark::State& state) {
  World world;
  const Peer peer(*world.memory, 1);
  const auto theirs = peer.open_arena(world.arena->segment());
  world.arena->release(*world.arena->allocate(4 * kKiB));
  for (auto _ : state) {
    const BlockNumber block = *world.arena->allocate_warm(4 * kKiB);
    const Sent sent = send(*world.arena, block);
    world.arena->release(block);
    if (!receive(*theirs, sent)) state.SkipWithError("stale");
    theirs->release(block);
  }
}
BENCHMARK(send_fresh_and_receive);

constexpr SipKey kKey{1, 2};

void encode_and_sign(benchmark::State& state) {
  const std::array<std::byte, 24> view{};
  TensorReference reference{.session = {3, 4},
                            .arena = 5,
                            .block = 6,
                            .generation = 7,
                            .ticket = Ticket{1, 2, 3, 4},
                            .view = view};
  std::array<std::byte, handle_size(24)> bytes{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference);
    encode(reference, kKey, bytes);
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(encode_and_sign);

void check_and_decode(benchmark::State& state) {
  const std::array<std::byte, 24> view{};
  std::array<std::byte, handle_size(24)> bytes{};
  encode({.session = {3, 4}, .arena = 5, .ticket = Ticket{1, 2, 3, 4}, .view = view}, kKey, bytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    check_signature(kKey, bytes);
    benchmark::DoNotOptimize(decode(bytes));
  }
}
BENCHMARK(check_and_decode);

void siphash_of(benchmark::State& state) {
  std::array<std::byte, 1024> bytes{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    benchmark::DoNotOptimize(siphash(kKey, bytes.data(), static_cast<std::size_t>(state.range(0))));
  }
}
BENCHMARK(siphash_of)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace shmtensor::bench
