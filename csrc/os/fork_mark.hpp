// Tells a process from a copy of it that was made without fork handlers: by the system calls clone
// and fork, or glibc's _Fork. Such a copy has the mappings, descriptors and objects of its parent,
// but nothing that says so. The mark lies in a page that the kernel empties in every copy
// (Linux 4.14); the fork handler of a child marks it again.
#pragma once

#include <atomic>
#include <cstdint>

namespace shmtensor {

namespace fork_mark {
inline std::atomic<std::uint32_t> none{1};  ///< before there is a page, and where there can be none
inline std::atomic<std::atomic<std::uint32_t>*> place{&none};
}  // namespace fork_mark

/// Marks this process, unless it is marked. To be called before it shares anything, by one thread
/// at a time.
void mark_process() noexcept;

/// For the fork handler of a child: from now on it is a process like any other.
void mark_forked_child() noexcept;

/// Return true if this process is a copy of one that was marked, made without fork handlers. What
/// it has is its parent's: it may change nothing that is shared. False where the kernel cannot
/// tell.
[[nodiscard]] inline bool is_raw_copy() noexcept {
  return fork_mark::place.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) == 0;
}

[[noreturn]] void throw_raw_copy();

/// Throws SessionError in such a copy.
inline void refuse_in_raw_copy() {
  if (is_raw_copy()) throw_raw_copy();
}

}  // namespace shmtensor
