// Tells others in memory that a thread is gone.
#pragma once

#include <atomic>
#include <cstdint>

namespace shmtensor {

/// The bits of such a word that name the thread; the kernel's mark lies outside of them.
inline constexpr std::uint32_t kRobustThread = 0x3fff'ffff;

/// Stores the calling thread's id in a word, usually in shared memory. When the thread ends, also
/// by SIGKILL, the kernel puts a mark in its place: whoever compares the word with what it was
/// before learns of the end without a system call. (The kernel's list of robust futexes, see
/// get_robust_list(2). It takes the place of the C library's, so the thread can use no robust
/// mutex; a second claim of one thread replaces its first.)
///
/// Without that system call the word only says who claimed it last.
void claim_robust(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace shmtensor
