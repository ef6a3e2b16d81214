// Identifies processes and checks whether they are alive.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// A pid can be reused; together with the start time it identifies one process until reboot.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< field 22 of /proc/PID/stat; 0 if /proc is not mounted
  bool operator==(const ProcessIdentity&) const = default;
};

[[nodiscard]] ProcessIdentity this_process() noexcept;

/// Returns field 22 of /proc/PID/stat, or 0.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid) noexcept;

/// Return true if the process runs. A zombie counts as dead. A process whose first thread has ended
/// runs as long as another thread does.
[[nodiscard]] bool is_alive(const ProcessIdentity& process) noexcept;

/// Return true if the process has ended, or begins to end within some milliseconds and ends within
/// a second, for which this waits.
[[nodiscard]] bool ends_soon(const ProcessIdentity& process, std::uint64_t milliseconds) noexcept;

/// Return true if the first thread of the process has ended, as by pthread_exit, while other
/// threads run. /proc then shows the files of the process only under the numbers of those threads.
[[nodiscard]] bool lacks_first_thread(pid_t pid) noexcept;

/// Returns a descriptor that becomes readable when the process ends (Linux 5.3). Empty if the
/// process has ended or the kernel does not support pidfds.
[[nodiscard]] Fd open_pidfd(const ProcessIdentity& process) noexcept;

/// Returns a copy of another process's descriptor (Linux 5.6). Empty if that is not permitted.
[[nodiscard]] Fd take_descriptor(const Fd& pidfd, int number) noexcept;

[[nodiscard]] bool has_ended(const Fd& pidfd) noexcept;

/// Return true if the process is a child of this one and runs. Reaps it if it has ended. False
/// where the system lacks pidfds.
[[nodiscard]] bool is_running_child(const ProcessIdentity& process) noexcept;

/// Returns the inode of this process's PID namespace, which is the scope of its pids. 0 if /proc is
/// not mounted or belongs to another namespace, whose pids differ.
[[nodiscard]] std::uint64_t pid_namespace() noexcept;

/// Return true if the process is in another network namespace, where the same name of an abstract
/// socket refers to another socket. False if that cannot be determined.
[[nodiscard]] bool in_other_network(pid_t pid);

/// Starts a program in its own process session, with `descriptor` as its descriptor 3, standard
/// streams on /dev/null and everything else closed. Waits for its first process to exit: the
/// program detaches itself.
void launch_detached(const std::string& program, const std::vector<std::string>& arguments,
                     const Fd& descriptor);

}  // namespace shmtensor
