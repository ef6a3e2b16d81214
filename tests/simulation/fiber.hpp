// A function with a stack of its own, which can be left and entered again, or dropped.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstddef>

namespace shmtensor::simulation {

/// Threads: one.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next `enter` calls `entry(argument)`, which does not return: it calls `leave`. What the
  /// fiber did before is dropped; no destructor runs, as in a process that is killed.
  void start(void (*entry)(void*), void* argument);
  /// Runs the fiber until it calls `leave`.
  void enter();
  void leave();

 private:
  /// What the C++ runtime knows of the exceptions that a thread handles, see __cxa_eh_globals.
  using Exceptions = std::array<void*, 2>;

  static void run(unsigned low, unsigned high);
  void swap_exceptions() noexcept;

  std::byte* stack_;
  ucontext_t context_{};
  jmp_buf caller_{};
  jmp_buf self_{};
  Exceptions exceptions_{};
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool fresh_ = false;
};

}  // namespace shmtensor::simulation
