// The file /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shmtensor {

/// Reads the first 4 KiB of a small file in /proc; returns how many bytes, a zero byte follows
/// them. Uses only system calls, since the fork handler of a child calls it.
[[nodiscard]] std::size_t read_start(const char* path, std::array<char, 4096>& buffer) noexcept;

/// All zero if the process does not exist, or /proc is not mounted.
struct ProcessStat {
  char state = '\0';
  pid_t parent = 0;
  std::uint64_t flags = 0;  ///< of the first thread: PF_* of the kernel's sched.h
  std::uint64_t threads = 0;
  std::uint64_t start_time = 0;
  /// Where its program and the start of its stack are in memory; the stack is 0 if the kernel does
  /// not show them. Random for each execution of a program, and inherited by a forked child.
  std::array<std::uint64_t, 3> image{};

  [[nodiscard]] bool has_ended() const noexcept { return state == 'Z' || state == 'X'; }

  /// Return true if the first thread is ending, or has ended. If the whole process ends, the kernel
  /// closes its files later.
  [[nodiscard]] bool is_ending() const noexcept {
    constexpr std::uint64_t kExiting = 4;  // PF_EXITING
    return has_ended() || (flags & kExiting) != 0;
  }
};

[[nodiscard]] ProcessStat read_stat(pid_t pid) noexcept;

}  // namespace shmtensor
