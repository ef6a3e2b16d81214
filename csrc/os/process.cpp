#include "os/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/process_stat.hpp"

namespace shmtensor {
namespace {

constexpr auto kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, Linux 5.4

}  // namespace

std::uint64_t start_time_of(pid_t pid) noexcept { return read_stat(pid).start_time; }

ProcessIdentity this_process() noexcept {
  const pid_t pid = ::getpid();
  return {pid, start_time_of(pid)};
}

bool is_alive(const ProcessIdentity& process) noexcept {
  if (process.pid <= 0) return false;
  const ProcessStat stat = read_stat(process.pid);
  if (stat.state == '\0') return ::kill(process.pid, 0) == 0 || errno == EPERM;
  if (process.start_time != 0 && stat.start_time != process.start_time) return false;
  return !stat.has_ended() || stat.threads > 1;
}

bool ends_soon(const ProcessIdentity& process, std::uint64_t milliseconds) noexcept {
  const std::uint64_t start = monotonic_nanoseconds();
  while (is_alive(process)) {
    const std::uint64_t limit = read_stat(process.pid).is_ending() ? 1000 : milliseconds;
    if (monotonic_nanoseconds() - start >= limit * 1'000'000) return false;
    const timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return true;
}

bool lacks_first_thread(pid_t pid) noexcept {
  const ProcessStat stat = read_stat(pid);
  return stat.has_ended() && stat.threads > 1;
}

Fd open_pidfd(const ProcessIdentity& process) noexcept {
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // The pid may have been reused before the call. A match after the call proves that it was not.
  if (pidfd && process.start_time != 0 && start_time_of(process.pid) != process.start_time) {
    pidfd.reset();
  }
  return pidfd;
}

Fd take_descriptor(const Fd& pidfd, int number) noexcept {
#if defined(SYS_pidfd_getfd)
  return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
#else
  return {};
#endif
}

bool has_ended(const Fd& pidfd) noexcept { return is_readable(pidfd); }

// Waits by a pidfd: the pid may belong to another child by now, which is not to be reaped here.
bool is_running_child(const ProcessIdentity& process) noexcept {
  const Fd pidfd = open_pidfd(process);
  if (!pidfd) return false;
  siginfo_t ended{};
  const auto number = static_cast<id_t>(pidfd.get());
  return ::waitid(kPidfd, number, &ended, WEXITED | WNOHANG) == 0 && ended.si_pid == 0;
}

std::uint64_t pid_namespace() noexcept {
  std::array<char, 16> self{};
  if (::readlink("/proc/self", self.data(), self.size() - 1) <= 0) return 0;
  if (std::strtol(self.data(), nullptr, 10) != ::getpid()) return 0;
  struct stat info{};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool in_other_network(pid_t pid) {
  struct stat ours{};
  struct stat theirs{};
  return ::stat("/proc/self/ns/net", &ours) == 0 &&
         ::stat(("/proc/" + std::to_string(pid) + "/ns/net").c_str(), &theirs) == 0 &&
         ours.st_ino != theirs.st_ino;
}

void launch_detached(const std::string& program, const std::vector<std::string>& arguments,
                     const Fd& descriptor) {
  // dup2 of a descriptor onto itself keeps close-on-exec, so a copy with a free number is used.
  const Fd copy(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 4));
  if (!copy) throw_os("duplicate a descriptor (raise RLIMIT_NOFILE)");
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (const int standard : {0, 1, 2}) {
    ::posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  ::posix_spawn_file_actions_adddup2(&actions, copy.get(), 3);

  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = 0;
  const int code =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (code != 0) throw_os("start " + program, code);
  // The program forks and its first process exits immediately. ECHILD means that a SIGCHLD handler
  // of the user reaped it before.
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace shmtensor
