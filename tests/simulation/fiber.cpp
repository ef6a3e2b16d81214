// glibc checks with this option that longjmp leaves a frame of the same stack.
#undef _FORTIFY_SOURCE

#include "simulation/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace shmtensor::simulation {
namespace {

constexpr std::size_t kStack = 256 * 1024;

}  // namespace

Fiber::Fiber() {
  // By the system call: the simulation tracks what mmap returns.
  const long stack = ::syscall(SYS_mmap, nullptr, kStack, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == -1) throw std::bad_alloc();
  stack_ = reinterpret_cast<std::byte*>(stack);
  ::getcontext(&context_);
}

Fiber::~Fiber() { ::syscall(SYS_munmap, stack_, kStack); }

void Fiber::start(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  fresh_ = true;
  exceptions_ = {};
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStack;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::run), 2,
                static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
}

void Fiber::run(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
  self->entry_(self->argument_);
  __builtin_trap();
}

void Fiber::swap_exceptions() noexcept {
  void* const global = abi::__cxa_get_globals();
  Exceptions now;
  std::memcpy(now.data(), global, sizeof now);
  std::memcpy(global, exceptions_.data(), sizeof now);
  exceptions_ = now;
}

void Fiber::enter() {
  swap_exceptions();
  if (_setjmp(caller_) == 0) {
    if (std::exchange(fresh_, false)) ::setcontext(&context_);
    _longjmp(self_, 1);
  }
  swap_exceptions();
}

void Fiber::leave() {
  if (_setjmp(self_) == 0) _longjmp(caller_, 1);
}

}  // namespace shmtensor::simulation
