#include "os/fork_mark.hpp"

#include <sys/mman.h>

#include <exception>
#include <new>

#include "base/error.hpp"
#include "os/mapping.hpp"

#if !defined(MADV_WIPEONFORK)
#define MADV_WIPEONFORK 18
#endif

namespace shmtensor {

namespace {

std::uint32_t depth = 1;  // is copied to a child, unlike the mark

}  // namespace

void mark_process() noexcept {
  if (fork_mark::place.load() != &fork_mark::none) return;
  try {
    Mapping page = Mapping::anonymous(page_size());
    if (::madvise(page.data(), page.size(), MADV_WIPEONFORK) != 0) return;
    fork_mark::place.store(new (page.release()) Atomic<std::uint32_t>(depth));
  } catch (const std::exception&) {
    // No address space is left, perhaps not even for the error's text. Without a mark, no process
    // is considered a raw copy.
  }
}

void mark_forked_child() noexcept { fork_mark::place.load()->store(++depth); }

void throw_raw_copy() {
  throw SessionError(
      "this process was created by clone or _Fork, which do not run the fork handlers that join a "
      "child to the session; it may only read inherited tensors, as long as its parent holds them. "
      "Use os.fork or subprocess");
}

}  // namespace shmtensor
