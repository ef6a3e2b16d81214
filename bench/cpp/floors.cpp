// What the machine itself takes: the floors of the other benchmarks, by bench/cpp_results.py.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace shmtensor::bench {
namespace {

using Word = std::atomic<std::uint32_t>;

// Two words, each written by one thread and read by the other, in cache lines of their own.
struct Words {
  alignas(64) Word there{0};
  alignas(64) Word back{0};
};

constexpr std::uint32_t kEnd = ~std::uint32_t{0};

/// Runs the benchmark against a thread that answers each number. `wait(word, former)` returns the
/// next number.
template <typename Set, typename Wait>
void ping_pong(benchmark::State& state, Set&& set, Wait&& wait) {
  Words words;
  std::jthread other([&] {
    for (std::uint32_t last = 0; (last = wait(words.there, last)) != kEnd;) set(words.back, last);
  });
  std::uint32_t trip = 0;
  for (auto _ : state) {
    set(words.there, trip + 1);
    trip = wait(words.back, trip);
  }
  set(words.there, kEnd);
}

// A cache line passes between processors.
void cache_line_there_and_back(benchmark::State& state) {
  if (std::thread::hardware_concurrency() < 2) state.SkipWithError("needs two processors");
  ping_pong(
      state, [](Word& word, std::uint32_t value) { word.store(value, std::memory_order_release); },
      [](const Word& word, std::uint32_t former) {
        std::uint32_t now = former;
        for (int i = 0; (now = word.load(std::memory_order_acquire)) == former; ++i) {
          if (i > 100'000) std::this_thread::yield();  // both may be on one processor
        }
        return now;
      });
}
BENCHMARK(cache_line_there_and_back)->UseRealTime();

// The kernel wakes a thread that sleeps, twice.
void futex_there_and_back(benchmark::State& state) {
  ping_pong(
      state,
      [](Word& word, std::uint32_t value) {
        word.store(value);
        ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
      },
      [](const Word& word, std::uint32_t former) {
        std::uint32_t now = former;
        while ((now = word.load()) == former) {
          ::syscall(SYS_futex, &word, FUTEX_WAIT, former, nullptr, nullptr, 0);
        }
        return now;
      });
}
BENCHMARK(futex_there_and_back)->UseRealTime();

// The kernel provides a page of zeros for each that is written first.
void copy_into_fresh(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> from(size, std::byte{1});
  for (auto _ : state) {
    void* to = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED) {
      state.SkipWithError("no memory");
      return;
    }
    std::memcpy(to, from.data(), size);
    benchmark::ClobberMemory();
    state.PauseTiming();
    ::munmap(to, size);
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_into_fresh)->Arg(64 << 20)->Unit(benchmark::kMillisecond);

// The kernel reserves pages without a copy.
void reserve_fresh(benchmark::State& state) {
  const int file = ::memfd_create("shmtensor-bench", MFD_CLOEXEC);
  for (auto _ : state) {
    if (::ftruncate(file, state.range(0)) != 0 || ::fallocate(file, 0, 0, state.range(0)) != 0) {
      state.SkipWithError("no memory");
    }
    state.PauseTiming();
    benchmark::DoNotOptimize(::ftruncate(file, 0));
    state.ResumeTiming();
  }
  ::close(file);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(reserve_fresh)->Arg(4 << 10)->Arg(2 << 20)->Arg(64 << 20)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shmtensor::bench
