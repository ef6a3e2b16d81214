// shmtensor-manager: the manager of one session. The first process that needs the session starts
// this program with the listening socket as descriptor 3; see docs/design/manager.md.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/ids.hpp"
#include "manager/manager_address.hpp"
#include "manager/server.hpp"
#include "os/neutral_start.hpp"

namespace {

constexpr int kListener = 3;

// Closes the descriptors that the user's program left open across exec. If the manager kept a pipe
// open, its reader would wait indefinitely.
void close_inherited() {
#if defined(SYS_close_range)
  if (::syscall(SYS_close_range, kListener + 1, ~0U, 0) == 0) return;
#endif
  const long limit = ::sysconf(_SC_OPEN_MAX);
  for (int fd = kListener + 1; fd < limit; ++fd) ::close(fd);
}

// Leaves the process group and session of the user's program, and has init as its parent. So Ctrl-C
// does not reach the manager, and no `wait` of the user's program finds it.
bool detach() {
  const pid_t pid = ::fork();
  if (pid != 0) ::_exit(pid < 0 ? 1 : 0);
  return ::setsid() >= 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 || ::fcntl(kListener, F_GETFD) < 0) {
    std::fprintf(stderr,
                 "shmtensor-manager is started by shmtensor: it expects a session id, the value of "
                 "%s, and a listening socket as descriptor %d\n",
                 shmtensor::kDirectoryVariable, kListener);
    return 2;
  }
  const shmtensor::SessionId session = shmtensor::SessionId::parse(arguments[1]);
  ::setenv(shmtensor::kDirectoryVariable, arguments[2], 1);
  if (!detach()) return 1;
  close_inherited();
  ::fcntl(kListener, F_SETFD, FD_CLOEXEC);
  ::fcntl(kListener, F_SETFL, O_NONBLOCK);
  ::prctl(PR_SET_NAME, "shmtensor-mgr");
  shmtensor::reset_inherited_settings();
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
  try {
    shmtensor::Server(session, shmtensor::Fd(kListener)).run();
  } catch (const std::exception&) {
    // Its clients start another manager, which takes over.
    return 1;
  }
  return 0;
}
