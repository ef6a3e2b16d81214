// Who a process is and whether it still lives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// A pid alone is reused; together with its start time it names one process until reboot.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< field 22 of /proc/PID/stat; 0 when /proc is not there
  bool operator==(const ProcessIdentity&) const = default;
};

[[nodiscard]] ProcessIdentity this_process() noexcept;

/// Field 22 of /proc/PID/stat, or 0.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid) noexcept;

/// Runs, or has ended and waits to be reaped? The second counts as dead. A process whose first
/// thread has ended runs as long as another one does.
[[nodiscard]] bool is_alive(const ProcessIdentity& process) noexcept;

/// Has its first thread ended, as by pthread_exit, while others go on? Of such a process /proc
/// shows nothing under its own number, and everything under that of a thread.
[[nodiscard]] bool lacks_first_thread(pid_t pid) noexcept;

/// A descriptor that becomes readable when the process ends (Linux 5.3). Empty when the process is
/// gone or the kernel knows no pidfd.
[[nodiscard]] Fd open_pidfd(const ProcessIdentity& process) noexcept;

/// A copy of another process's descriptor (Linux 5.6); empty where that is not permitted.
[[nodiscard]] Fd take_descriptor(const Fd& pidfd, int number) noexcept;

[[nodiscard]] bool has_ended(const Fd& pidfd) noexcept;

/// The inode of this process's PID namespace; pids mean something only inside it. 0 when /proc is
/// not there, or is another namespace's: then its pids are not ours.
[[nodiscard]] std::uint64_t pid_namespace() noexcept;

/// Is the process in another network namespace, where an abstract socket's name means another one?
/// No when that cannot be told.
[[nodiscard]] bool in_other_network(pid_t pid) noexcept;

/// Starts a program in a session of its own, with `descriptor` as its descriptor 3, everything else
/// closed or /dev/null, and waits for it to return: the program detaches itself.
void launch_detached(const std::string& program, const std::vector<std::string>& arguments,
                     const Fd& descriptor);

}  // namespace shmtensor
