// First use of an arena, which needs the manager, and the local lookup that replaces it afterwards.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "os/memfd.hpp"
#include "os/unix_socket.hpp"
#include "session/session.hpp"
#include "support/world.hpp"

namespace shmtensor::bench {

using testing::fresh_session;
namespace {

constexpr const char* kManager = SHMTENSOR_MANAGER;

// One message with that many descriptors, sent and received.
void pass_descriptors(benchmark::State& state) {
  const auto [left, right] = socket_pair();
  const Fd file = create_memfd("shmtensor-bench");
  const std::vector<int> numbers(static_cast<std::size_t>(state.range(0)), file.get());
  std::array<std::byte, 8> bytes{};
  for (auto _ : state) {
    send_message(right, bytes, numbers);
    benchmark::DoNotOptimize(receive_message(left, bytes));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(pass_descriptors)->Arg(0)->Arg(1)->Arg(kMaxFdsPerMessage);

std::unique_ptr<Session> connect(const SessionId& id, Budget& budget) {
  return Session::connect(id, Session::Start::always, {.program = kManager}, budget);
}

// An arena of another process, found in the registry.
void find_arena(benchmark::State& state) {
  const SessionId id = fresh_session();
  Budget budget;
  const auto owner = connect(id, budget);
  const auto peer = connect(id, budget);
  const Block block = owner->allocate(4 * kKiB, Strategy::file_descriptor);
  const ArenaNumber number = block.arena->segment().number();
  static_cast<void>(peer->attach(number, Strategy::file_descriptor));
  for (auto _ : state) {
    const PinnedArena arena = peer->find(number);
    benchmark::DoNotOptimize(arena.get());
  }
  block.arena->release(block.number);
}
BENCHMARK(find_arena);

// A process joins a running session, a few times: while one of its sessions maps the memory, the
// manager keeps the slots of the others for this process, of 1,024.
void join_session(benchmark::State& state) {
  const SessionId id = fresh_session();
  Budget budget;
  const auto first = connect(id, budget);
  for (auto _ : state) {
    const auto session = connect(id, budget);
    benchmark::DoNotOptimize(session.get());
  }
}
BENCHMARK(join_session)->Unit(benchmark::kMicrosecond)->Iterations(100);

// First use of an arena: descriptor from the manager, checks, mapping.
void attach_arena(benchmark::State& state) {
  const SessionId id = fresh_session();
  Budget budget;
  const auto owner = connect(id, budget);
  const Block block = owner->allocate(4 * kKiB, Strategy::file_descriptor);
  const ArenaNumber number = block.arena->segment().number();
  for (auto _ : state) {
    state.PauseTiming();
    auto peer = connect(id, budget);
    state.ResumeTiming();
    PinnedArena arena = peer->attach(number, Strategy::file_descriptor);
    state.PauseTiming();
    arena.reset();
    peer.reset();
    state.ResumeTiming();
  }
  block.arena->release(block.number);
}
BENCHMARK(attach_arena)->Unit(benchmark::kMicrosecond)->Iterations(100);

}  // namespace
}  // namespace shmtensor::bench
