// Waits for a word of shared memory to change, across processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace shmtensor {

/// Returns if the word is not `expected`, after a wake-up, and sometimes spuriously. The caller
/// checks the word again.
void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept;

/// Wakes all threads that wait for the word, in every process.
void wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace shmtensor
