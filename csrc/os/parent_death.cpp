#include "os/parent_death.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/atomic.hpp"
#include "base/error.hpp"
#include "os/limits.hpp"

namespace shmtensor {
namespace {

constexpr int kDeepest = 64;  // generations; a signal stack is small

Atomic<int> held{-1};

bool writer_is_gone(int pipe_end) noexcept {
  pollfd entry{pipe_end, 0, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

void end_all() noexcept {
  raise_soft_limit(RLIMIT_NOFILE);  // listing the descendants needs descriptors
  kill_descendants(::getpid());
  ::kill(::getpid(), SIGKILL);
}

// Some kernels send the signal for every change of the pipe, and any process may send it. So the
// handler checks the pipe.
void on_signal(int /*signal*/) noexcept {
  const int before = errno;
  if (writer_is_gone(held.load(std::memory_order_relaxed))) end_all();
  errno = before;
}

// Appends to a path; snprintf is not async-signal-safe.
char* append(char* at, const char* text) noexcept {
  while (*text != '\0') *at++ = *text++;
  return at;
}

char* append(char* at, long number) noexcept {
  std::array<char, 20> digits{};
  std::size_t count = 0;
  do digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (count != 0) *at++ = digits[--count];
  return at;
}

void kill_below(pid_t pid, int generation) noexcept;

// Stops the process first, so that it starts no more children while they are listed.
void kill_with_descendants(pid_t pid, int generation) noexcept {
  ::kill(pid, SIGSTOP);
  kill_below(pid, generation + 1);
  ::kill(pid, SIGKILL);
}

// Reads the children of one thread: numbers separated by blanks.
void kill_children_of(const char* path, int generation) noexcept {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return;
  std::array<char, 512> text;
  pid_t pid = 0;
  ssize_t size = 0;
  while ((size = ::read(file.get(), text.data(), text.size())) > 0) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
      } else if (pid != 0) {
        kill_with_descendants(pid, generation);
        pid = 0;
      }
    }
  }
}

void kill_below(pid_t pid, int generation) noexcept {
  if (generation > kDeepest) return;
  std::array<char, 80> path{};
  char* end = append(append(append(path.data(), "/proc/"), pid), "/task/");
  const Fd tasks(::open(path.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tasks) return;
  struct Entry {  // linux_dirent64
    std::uint64_t inode;
    std::int64_t next;
    std::uint16_t length;
    std::uint8_t type;
    char name[1];
  };
  alignas(Entry) std::array<char, 1024> entries;
  long size = 0;
  while ((size = ::syscall(SYS_getdents64, tasks.get(), entries.data(), entries.size())) > 0) {
    for (long at = 0; at < size;) {
      const char* entry = entries.data() + at;
      std::uint16_t length = 0;
      std::memcpy(&length, entry + offsetof(Entry, length), sizeof length);
      const char* name = entry + offsetof(Entry, name);
      if (name[0] != '.') {
        *append(append(end, name), "/children") = '\0';
        kill_children_of(path.data(), generation);
      }
      at += length;
    }
  }
}

}  // namespace

// Not SIGIO, which older event loops use, nor the first real-time signals, which other libraries
// use.
int parent_death_signal() noexcept { return SIGRTMIN + 23; }

Fd open_parent_death_pipe(int read_end) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", read_end);
  Fd pipe_end(::open(path.data(), O_RDONLY | O_NONBLOCK));
  if (!pipe_end) throw_os("open " + std::string(path.data()) + " (is /proc mounted?)");
  return pipe_end;
}

void bind_parent_death_signal(int pipe_end, pid_t owner) {
  if (::fcntl(pipe_end, F_SETSIG, parent_death_signal()) != 0 ||
      ::fcntl(pipe_end, F_SETOWN, owner) != 0 ||
      ::fcntl(pipe_end, F_SETFL, O_NONBLOCK | O_ASYNC) != 0) {
    throw_os("register the parent-death signal");
  }
}

void arm_parent_death_signal(int pipe_end) {
  held.store(pipe_end, std::memory_order_relaxed);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigfillset(&action.sa_mask);
  if (::sigaction(parent_death_signal(), &action, nullptr) != 0) throw_os("set a signal handler");
  sigset_t mine;
  ::sigemptyset(&mine);
  ::sigaddset(&mine, parent_death_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &mine, nullptr);
  bind_parent_death_signal(pipe_end, ::getpid());
  if (writer_is_gone(pipe_end)) end_all();
}

void kill_descendants(pid_t pid) noexcept { kill_below(pid, 0); }

}  // namespace shmtensor
