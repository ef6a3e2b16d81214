// The system calls that the simulation watches; the linker's option --wrap leads calls of `mmap` to
// `__wrap_mmap`, and those of `__real_mmap` to the C library.
#include <sys/mman.h>
#include <sys/stat.h>

#include "simulation/places.hpp"
#include "simulation/snapshot.hpp"

using shmtensor::simulation::Places;
using shmtensor::simulation::Snapshot;

extern "C" {

void* __real_mmap(void* at, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void* at, size_t size);
int __real_close(int file);

void* __wrap_mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  void* const data = __real_mmap(at, size, protection, flags, file, offset);
  if (data == MAP_FAILED) return data;
  const Snapshot::UseHeap own(Snapshot::Heap::own);
  Snapshot::get().note_mapped(data, size);
  struct stat info{};
  if ((flags & MAP_SHARED) != 0 && ::fstat(file, &info) == 0) {
    Places::get().note_mapped(data, size, info.st_ino, static_cast<std::uint64_t>(offset));
  }
  return data;
}

int __wrap_munmap(void* at, size_t size) {
  const Snapshot::UseHeap own(Snapshot::Heap::own);
  if (!Snapshot::get().note_unmapped(at, size)) return 0;
  Places::get().note_unmapped(at, size);
  return __real_munmap(at, size);
}

int __wrap_sched_getcpu() { return 0; }

int __wrap_close(int file) {
  return Snapshot::get().keeps_descriptor(file) ? 0 : __real_close(file);
}
}
