#include "os/fork_mark.hpp"

#include <sys/mman.h>

#include <new>

#include "base/error.hpp"
#include "os/mapping.hpp"

#if !defined(MADV_WIPEONFORK)
#define MADV_WIPEONFORK 18
#endif

namespace shmtensor {

void mark_process() noexcept {
  if (fork_mark::place.load() != &fork_mark::none) return;
  try {
    Mapping page = Mapping::anonymous(page_size());
    if (::madvise(page.data(), page.size(), MADV_WIPEONFORK) != 0) return;
    fork_mark::place.store(new (page.release()) std::atomic<std::uint32_t>(1));
  } catch (const Error&) {
    // No address space is left: without a mark nobody is taken for a copy.
  }
}

void mark_forked_child() noexcept { fork_mark::place.load()->store(1); }

void throw_raw_copy() {
  throw SessionError(
      "this process was made by clone or _Fork, without the fork handlers that give a child its "
      "own "
      "part in the session: it may read what it inherited while its parent keeps that, and nothing "
      "else; use os.fork or subprocess");
}

}  // namespace shmtensor
