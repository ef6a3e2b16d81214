// A forked process with a deadline.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <source_location>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "os/process.hpp"
#include "support/wait.hpp"

namespace shmtensor::testing {

/// How long `Child::wait` waits.
inline constexpr std::chrono::seconds kDeadline{60};
/// How long a child may run. A server and the processes of a storm run as long as their test: the
/// longest waits this often with `eventually`.
inline constexpr int kMostWaits = 45;
inline constexpr std::chrono::seconds kLifetime = kMostWaits * kPatience;

/// Runs a function in a forked child. Failed expectations in it, and exceptions, become exit code
/// 1; a function that returns a number chooses its own. No child outlives its test: it dies with
/// its parent, by an alarm, and at the latest in the destructor.
class Child {
 public:
  template <typename Body>
  explicit Child(Body&& body) {
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw_os("fork");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::alarm(static_cast<unsigned>(kLifetime.count()));
    const int code = run(std::forward<Body>(body));
    std::fflush(nullptr);
    ::_exit(code);
  }
  ~Child() { kill_and_reap(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill(int signal = SIGKILL) const noexcept {
    if (pid_ > 0) ::kill(pid_, signal);  // 0, after the child has ended, is the whole process group
  }

  /// Returns the exit code, or the negative number of the signal that ended it. At the deadline the
  /// child is killed and the test fails.
  int wait() {
    const Fd pidfd = open_pidfd({pid_, 0});
    pollfd entry{pidfd.get(), POLLIN, 0};
    const std::chrono::milliseconds time = kDeadline;
    if (::poll(&entry, 1, static_cast<int>(time.count())) == 0) {
      ADD_FAILURE() << "the child did not end in time";
      kill();
    }
    return reap();
  }

  /// Kills it and waits until it has ended.
  void kill_and_reap() {
    if (pid_ <= 0) return;
    kill();
    reap();
  }

 private:
  template <typename Body>
  static int run(Body&& body) noexcept {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
        body();
        return ::testing::Test::HasFailure() ? 1 : 0;
      } else {
        return body();
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      return 1;
    }
  }

  int reap() noexcept {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    // Without this, the test would report only what its other processes noticed.
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
      ADD_FAILURE() << "child " << pid_ << " was ended by its alarm: it may run for "
                    << kLifetime.count() << " seconds";
    }
    pid_ = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  pid_t pid_ = 0;
};

/// Runs the function in a child, for tests that change limits of a process; returns how it ended.
template <typename Body>
int exit_of(Body&& body) {
  return Child(std::forward<Body>(body)).wait();
}

/// The same; the test fails unless the child succeeds.
template <typename Body>
void in_child(Body&& body, std::source_location where = std::source_location::current()) {
  if (const int code = exit_of(std::forward<Body>(body)); code != 0) {
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
        << "the child ended with " << code;
  }
}

}  // namespace shmtensor::testing
