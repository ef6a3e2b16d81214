// Waiting for a word of shared memory to change, across processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace shmtensor {

/// Returns when the word is no longer `expected`, when somebody woke it, or now and then for no
/// reason: look again.
void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t expected) noexcept;

/// Wakes all who wait for the word, in every process.
void wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace shmtensor
