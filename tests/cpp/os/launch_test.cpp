// Starting a program that detaches itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "os/process.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

// Runs a shell command whose descriptor 3 is one end of a socket; returns what it wrote there.
std::string output_of(const std::string& command) {
  auto [ours, theirs] = socket_pair();
  launch_detached("/bin/sh", {"-c", command}, theirs);
  std::string text;
  std::array<std::byte, 4096> buffer{};
  while (const auto received = receive_message(ours, buffer)) {
    if (received->size == 0) break;
    text.append(reinterpret_cast<const char*>(buffer.data()), received->size);
  }
  return text;
}

TEST(Launch, DescriptorIsNumberThree) { EXPECT_EQ(output_of("echo here >&3"), "here\n"); }

TEST(Launch, StandardStreamsAreDevNull) {
  EXPECT_EQ(output_of("for n in 0 1 2; do name=$(readlink /proc/$$/fd/$n); echo $name >&3; done"),
            "/dev/null\n/dev/null\n/dev/null\n");
}

TEST(Launch, SignalsAreAtTheirDefaults) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto old = ::signal(SIGHUP, SIG_IGN);
  const std::string masks = output_of("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f 2 >&3");
  ::signal(SIGHUP, old);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  // glibc keeps 32 and 33 for itself.
  const std::uint64_t ordinary = (std::uint64_t{1} << 31) - 1;
  char* end = nullptr;
  EXPECT_EQ(std::strtoull(masks.c_str(), &end, 16) & ordinary, 0u) << masks;
  EXPECT_EQ(std::strtoull(end, &end, 16) & ordinary, 0u) << masks;
}

TEST(Launch, WorksFromAnyDescriptorNumber) {
  auto [ours, theirs] = socket_pair();
  // Number 3 itself, or one that has to be moved for it.
  const Fd low(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 3));
  launch_detached("/bin/sh", {"-c", "echo low >&3"}, low);
  std::array<std::byte, 16> buffer{};
  EXPECT_EQ(receive_message(ours, buffer)->size, 4u);
}

TEST(Launch, LeavesNoZombie) {
  static_cast<void>(output_of("exit 3"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Launch, MissingProgramRaises) {
  const auto [ours, theirs] = socket_pair();
  try {
    launch_detached("/nowhere/shmtensor-manager", {}, theirs);
    ADD_FAILURE() << "it was started";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/nowhere/shmtensor-manager"), std::string::npos);
  }
}

}  // namespace
}  // namespace shmtensor
