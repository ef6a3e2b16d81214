// Cache lines that are fetched before they are used.
#pragma once

namespace shmtensor {

/// Begin to fetch the cache line of an address, which need not be mapped. What another processor
/// has written takes about 100 nanoseconds, but many lines can be on their way at the same time.
inline void prefetch_to_read(const void* at) noexcept { __builtin_prefetch(at, 0); }
/// The same for a line that this process will write: with a prefetch to read, its first write would
/// wait a second time. Compilers use the instruction only for the processors that an option names;
/// those without it ignore it.
inline void prefetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace shmtensor
