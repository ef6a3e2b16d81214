// Distinguishes a process from a raw copy: a child made without fork handlers, by the system calls
// clone and fork, or by glibc's _Fork. A raw copy has the mappings, descriptors and objects of its
// parent, and nothing in its memory differs. The mark is stored in a page that the kernel clears in
// every child (Linux 4.14); the fork handler of a child sets the mark again.
#pragma once

#include <cstdint>

#include "base/atomic.hpp"

namespace shmtensor {

namespace fork_mark {
inline Atomic<std::uint32_t> none{1};  ///< used before the page exists, and where no page can
                                       ///< be mapped
inline Atomic<Atomic<std::uint32_t>*> place{&none};
}  // namespace fork_mark

/// Marks this process unless it is marked already. The caller does so before the process shares
/// anything, in one thread at a time.
void mark_process() noexcept;

/// Called by the fork handler of a child, which is then not a raw copy.
void mark_forked_child() noexcept;

/// Returns 1 in the process that was marked, 2 in its forked children, and so on; 0 in a raw copy.
/// So it distinguishes a process from each of its ancestors. A pid does not: in nested PID
/// namespaces, each of several ancestors may have pid 1.
[[nodiscard]] inline std::uint32_t fork_depth() noexcept {
  return fork_mark::place.load(std::memory_order_relaxed)->load(std::memory_order_relaxed);
}

/// Return true if this process is a raw copy of a marked process. Everything it has belongs to its
/// parent, so it must not change shared memory. Also false if the kernel does not report it.
[[nodiscard]] inline bool is_raw_copy() noexcept { return fork_depth() == 0; }

[[noreturn]] void throw_raw_copy();

/// Throws SessionError in a raw copy.
inline void refuse_in_raw_copy() {
  if (is_raw_copy()) throw_raw_copy();
}

}  // namespace shmtensor
