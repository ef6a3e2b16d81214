#include "os/program_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "os/process.hpp"
#include "os/process_stat.hpp"

namespace shmtensor {
namespace {

class CommandLine {
 public:
  explicit CommandLine(pid_t pid) noexcept {
    std::array<char, 64> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/cmdline", pid);
    size_ = read_start(path.data(), text_);
  }

  [[nodiscard]] std::string_view get() const noexcept { return {text_.data(), size_}; }

  /// Returns the name of the program, without its folder.
  [[nodiscard]] std::string_view program() const noexcept {
    const std::string_view path = get().substr(0, get().find('\0'));
    return path.substr(path.rfind('/') + 1);
  }

 private:
  std::array<char, 4096> text_{};
  std::size_t size_ = 0;
};

// Programs that Python's libraries execute to have a worker, or a process that forks workers.
bool is_of_multiprocessing(std::string_view command_line) noexcept {
  constexpr std::array<std::string_view, 4> kMarks = {
      "--multiprocessing-fork", "multiprocessing.forkserver", "loky.backend", "billiard."};
  return std::ranges::any_of(kMarks, [&](std::string_view mark) {
    return command_line.find(mark) != std::string_view::npos;
  });
}

bool is_worker_of(pid_t child, const ProcessStat& its, pid_t parent,
                  const ProcessStat& theirs) noexcept {
  if (theirs.start_time == 0) return false;                                // it has ended
  if (its.image == theirs.image && theirs.image.back() != 0) return true;  // forked
  const CommandLine command_line(child);
  if (is_of_multiprocessing(command_line.get())) return true;
  // The kernel does not show where a parent with more rights is in memory.
  return theirs.image.back() == 0 && !command_line.get().empty() &&
         command_line.get() == CommandLine(parent).get();
}

// MPICH gives its ranks no variable that differs from one run to the next. Its proxy of this
// machine starts all ranks here, maybe by way of shells. Returns 0 if this process is not a rank.
pid_t mpich_proxy() noexcept {
  if (std::getenv("PMI_RANK") == nullptr) return 0;
  for (pid_t process = ::getpid();;) {
    const pid_t parent = read_stat(process).parent;
    if (parent <= 0) return 0;
    const bool found = CommandLine(parent).program() == "hydra_pmi_proxy";
    if (read_stat(process).parent != parent) continue;  // its number may be another process's now
    if (found) return parent;
    process = parent;
  }
}

}  // namespace

pid_t first_process_of_run() noexcept {
  pid_t first = ::getpid();
  if (pid_namespace() == 0) return first;
  if (const pid_t proxy = mpich_proxy(); proxy != 0) return proxy;
  for (;;) {
    const ProcessStat its = read_stat(first);
    if (its.parent <= 0) return first;
    const ProcessStat theirs = read_stat(its.parent);
    if (!is_worker_of(first, its, its.parent, theirs)) return first;
    // While it is the parent it lives, so its number was not reused.
    if (read_stat(first).parent != its.parent) return first;
    first = its.parent;
  }
}

}  // namespace shmtensor
