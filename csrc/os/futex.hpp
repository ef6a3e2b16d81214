// Waits for a word of shared memory to change, across processes.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"

namespace shmtensor {

/// Returns if the word is not `expected`, after a wake-up, and sometimes spuriously. The caller
/// checks the word again.
void wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected) noexcept;

enum class WaitEnd : std::uint8_t {
  woken,  ///< or the word was not `expected`
  timed_out,
  interrupted,  ///< by a signal
};

/// The same with a timeout.
WaitEnd wait_for_change(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::uint64_t nanoseconds) noexcept;

/// The same, also if `other` is not `other_expected`, or at the end of the thread that has claimed
/// it (`claim_robust`), of which one waiting thread is woken. Before Linux 5.16, only `word`
/// counts.
WaitEnd wait_for_either(const Atomic<std::uint32_t>& word, std::uint32_t expected,
                        const Atomic<std::uint32_t>& other, std::uint32_t other_expected,
                        std::uint64_t nanoseconds) noexcept;

/// Wakes at most `count` threads that wait for the word, in any process. Returns how many it woke.
std::uint32_t wake(Atomic<std::uint32_t>& word, std::uint32_t count) noexcept;

/// Wakes all threads that wait for the word, in every process.
void wake_all(Atomic<std::uint32_t>& word) noexcept;

}  // namespace shmtensor
