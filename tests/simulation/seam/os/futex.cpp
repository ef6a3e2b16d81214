// As csrc/os/futex.cpp. A sleep usually has no timeout: that a thread sleeps although it could go
// on is what the simulation looks for.
#include "os/futex.hpp"

#include <climits>

#include "simulation/run.hpp"

namespace shmtensor {
namespace {

using simulation::Run;

const std::uint32_t& plain(const Atomic<std::uint32_t>& word) noexcept {
  return reinterpret_cast<const std::uint32_t&>(word);
}

}  // namespace

void wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected) noexcept {
  if (Run* const run = Run::running()) run->sleep(plain(word), expected, Run::kForever);
}

WaitEnd wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::uint64_t nanoseconds) noexcept {
  Run* const run = Run::running();
  const bool woken = run == nullptr || run->sleep(plain(word), expected, nanoseconds);
  return woken ? WaitEnd::woken : WaitEnd::timed_out;
}

WaitEnd wait_for_either(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        const Atomic<std::uint32_t>&, std::uint32_t,
                        std::uint64_t nanoseconds) noexcept {
  return wait_for_change(word, expected, nanoseconds);
}

std::uint32_t wake(Atomic<std::uint32_t>& word, std::uint32_t count) noexcept {
  Run* const run = Run::running();
  return run != nullptr ? run->wake(&word, count) : 0;
}

void wake_all(Atomic<std::uint32_t>& word) noexcept { wake(word, UINT_MAX); }

}  // namespace shmtensor
