// Lets other processes detect the end of a thread by reading a word of shared memory.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"

namespace shmtensor {

/// The bits of the word that hold the thread id; they are zero after its end.
inline constexpr std::uint32_t kRobustThread = 0x3fff'ffff;

/// Returns the id of the calling thread, without gettid(), which glibc has since 2.30.
[[nodiscard]] std::uint32_t this_thread_id() noexcept;

/// Stores the id of the calling thread in a word, usually in shared memory. When the thread ends,
/// also by SIGKILL, the kernel replaces the id by a mark, so a reader that remembers the old value
/// detects the end without a system call, and wakes one thread that waits for the word. This uses
/// the kernel's list of robust futexes, see get_robust_list(2). It replaces the list of the C
/// library, so the thread must not use robust mutexes; a second claim by the same thread replaces
/// the first.
///
/// Returns false, and leaves the word, if the system call is not available, as under some seccomp
/// profiles and emulators.
[[nodiscard]] bool claim_robust(Atomic<std::uint32_t>& word) noexcept;

}  // namespace shmtensor
