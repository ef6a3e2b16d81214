#include "os/neutral_start.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "os/fd.hpp"
#include "os/limits.hpp"

namespace shmtensor {
namespace {

constexpr int kMaxCpus = 8192;  // the largest number that the kernel can be built for

void raise_soft_limits() noexcept {
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) raise_soft_limit(resource);
}

void reset_scheduling() noexcept {
  const sched_param ordinary{};
  ::sched_setscheduler(0, SCHED_OTHER, &ordinary);
  ::setpriority(PRIO_PROCESS, 0, 0);
  // The kernel takes of these what exists and what the container permits.
  cpu_set_t* all = CPU_ALLOC(kMaxCpus);
  if (all == nullptr) return;
  const std::size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  std::memset(all, 0xff, size);
  ::sched_setaffinity(0, size, all);
  CPU_FREE(all);
}

void reset_memory_and_io() noexcept {
  constexpr int kMpolDefault = 0;
  ::syscall(SYS_set_mempolicy, kMpolDefault, nullptr, 0);
  constexpr int kIoprioWhoProcess = 1;
  constexpr int kIoprioOfTheScheduler = 0;
  ::syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, kIoprioOfTheScheduler);
  const Fd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) static_cast<void>(::write(score.get(), "0", 1) == 1);
}

}  // namespace

void reset_inherited_settings() noexcept {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  raise_soft_limits();
  reset_scheduling();
  reset_memory_and_io();
  ::umask(S_IRWXG | S_IRWXO);
  static_cast<void>(::chdir("/") == 0);
}

}  // namespace shmtensor
