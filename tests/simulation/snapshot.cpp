#include "simulation/snapshot.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

namespace shmtensor::simulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeap = std::size_t{1} << 30;
constexpr std::size_t kCopies = std::size_t{1} << 30;

std::byte* reserve(std::size_t size) {
  const long memory = ::syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == -1) throw std::bad_alloc();
  return reinterpret_cast<std::byte*>(memory);
}

void handle(int signal, siginfo_t* info, void* /*context*/) {
  if (Snapshot::get().touch(info->si_addr)) return;
  ::signal(signal, SIG_DFL);  // the instruction is repeated
}

}  // namespace

Snapshot& Snapshot::get() {
  static Snapshot& one = *::new (std::malloc(sizeof(Snapshot))) Snapshot;  // before any `new`
  return one;
}

Snapshot::Snapshot() : heap_(reserve(kHeap)), copies_(reserve(kCopies)) {
  struct sigaction action{};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
}

Snapshot::Heap Snapshot::use(Heap heap) noexcept { return std::exchange(get().in_use_, heap); }
Snapshot::UseHeap::UseHeap(Heap heap) noexcept : outer_(use(heap)) {}
Snapshot::UseHeap::~UseHeap() { use(outer_); }

void* Snapshot::allocate(std::size_t size, std::size_t alignment) {
  if (in_use_ == Heap::own) {
    void* data = nullptr;
    if (::posix_memalign(&data, alignment, size) != 0) throw std::bad_alloc();
    return data;
  }
  used_ = (used_ + alignment - 1) & ~(alignment - 1);
  if (used_ + size > kHeap) throw std::bad_alloc();
  return heap_ + std::exchange(used_, used_ + size);
}

void Snapshot::release(void* data) noexcept {
  auto* const at = static_cast<std::byte*>(data);
  if (at < heap_ || at >= heap_ + kHeap) std::free(data);
}

void Snapshot::note_mapped(void* data, std::size_t size) {
  const UseHeap own(Heap::own);
  if (taken_) {
    new_.emplace_back(data, size);
  } else {
    mapped_[static_cast<std::byte*>(data)] = static_cast<std::byte*>(data) + size;
  }
}

bool Snapshot::note_unmapped(void* data, std::size_t size) {
  if (taken_) return false;
  const UseHeap own(Heap::own);
  auto* const begin = static_cast<std::byte*>(data);
  auto* const end = begin + size;
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const auto [first, last] = *at;
    if (last <= begin || first >= end) {
      ++at;
      continue;
    }
    at = mapped_.erase(at);
    if (first < begin) mapped_[first] = begin;
    if (last > end) mapped_[end] = last;
  }
  return true;
}

// A mapping may contain parts without access, and parts that were replaced; the kernel knows which
// are writable.
void Snapshot::take() {
  const UseHeap own(Heap::own);
  mapped_[heap_] = heap_ + kHeap;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3) continue;
    auto* const first = reinterpret_cast<std::byte*>(begin);
    auto* const last = reinterpret_cast<std::byte*>(end);
    if (std::strncmp(access, "rw", 2) != 0) continue;
    for (const auto& [from, to] : mapped_) {
      if (from < last && to > first) watched_[std::max(from, first)] = std::min(to, last);
    }
  }
  for (const auto& [begin, end] : watched_) {
    ::mprotect(begin, static_cast<std::size_t>(end - begin), PROT_NONE);
  }
  used_at_snapshot_ = used_;
  int highest = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    highest = std::max(highest, std::stoi(file.path().filename()));
  }
  while (last_descriptor_ < highest) {
    last_descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // fills the gaps
  }
  taken_ = true;
}

bool Snapshot::touch(void* address) noexcept {
  if (!taken_) return false;
  auto* const at =
      reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1));
  auto found = watched_.upper_bound(at);
  if (found == watched_.begin() || at >= (--found)->second) return false;
  if (copied_ + kPage > kCopies || ::mprotect(at, kPage, PROT_READ | PROT_WRITE) != 0) return false;
  const UseHeap own(Heap::own);
  if (!known_.insert(Places::get().of(at)).second) return true;
  std::memcpy(copies_ + copied_, at, kPage);
  pages_.push_back({at, copies_ + copied_});
  copied_ += kPage;
  return true;
}

void Snapshot::restore() {
  for (const Page& page : pages_) std::memcpy(page.at, page.copy, kPage);
  used_ = used_at_snapshot_;
  for (const auto& [data, size] : new_) ::syscall(SYS_munmap, data, size);
  new_.clear();
  ::syscall(SYS_close_range, last_descriptor_ + 1, ~0U, 0);
}

}  // namespace shmtensor::simulation

void* operator new(std::size_t size) {
  return shmtensor::simulation::Snapshot::get().allocate(size, 16);
}
void* operator new[](std::size_t size) { return ::operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return shmtensor::simulation::Snapshot::get().allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return ::operator new(size, alignment);
}
void operator delete(void* data) noexcept { shmtensor::simulation::Snapshot::get().release(data); }
void operator delete[](void* data) noexcept { ::operator delete(data); }
void operator delete(void* data, std::size_t) noexcept { ::operator delete(data); }
void operator delete[](void* data, std::size_t) noexcept { ::operator delete(data); }
void operator delete(void* data, std::align_val_t) noexcept { ::operator delete(data); }
void operator delete[](void* data, std::align_val_t) noexcept { ::operator delete(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  ::operator delete(data);
}
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept {
  ::operator delete(data);
}
