#include "support/scarce_heap.hpp"

#include <cstdlib>
#include <new>

namespace shmtensor::testing {
namespace {

constexpr std::uint64_t kPlenty = ~std::uint64_t{0};
thread_local std::uint64_t t_left = kPlenty;

}  // namespace

ScarceHeap::ScarceHeap(std::uint64_t left) noexcept { t_left = left; }
ScarceHeap::~ScarceHeap() { t_left = kPlenty; }

void* allocate(std::size_t size) {
  if (t_left == 0) throw std::bad_alloc();
  if (t_left != kPlenty) --t_left;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace shmtensor::testing

/// For a Python test, which preloads this file as a library.
extern "C" __attribute__((visibility("default"))) void leave_allocations(std::uint64_t left) {
  shmtensor::testing::t_left = left;
}

void* operator new(std::size_t size) { return shmtensor::testing::allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return shmtensor::testing::allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
