#include "os/unix_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "support/child.hpp"
#include "support/names.hpp"

namespace shmtensor {
namespace {

using std::chrono::milliseconds;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <typename Body>
int errno_of(Body&& body) {
  try {
    body();
  } catch (const OsError& error) {
    return error.code();
  }
  return 0;
}

struct Buffer {
  std::array<std::byte, 64> bytes{};
  [[nodiscard]] std::string text(const Received& received) const {
    return {reinterpret_cast<const char*>(bytes.data()), received.size};
  }
};

TEST(UnixSocket, OneSocketListensOnAName) {
  const std::string name = testing::run_prefix() + "-listen";
  const auto first = listen_on(name);
  ASSERT_TRUE(first);
  EXPECT_FALSE(listen_on(name));
}

TEST(UnixSocket, ConnectWithoutListenerFails) {
  EXPECT_FALSE(connect_to(testing::run_prefix() + "-nobody", milliseconds(100)));
}

TEST(UnixSocket, NameIsFreeAfterListenerCloses) {
  const std::string name = testing::run_prefix() + "-listen";
  EXPECT_TRUE(listen_on(name));
  EXPECT_TRUE(listen_on(name));
}

TEST(UnixSocket, LongNameIsRejected) {
  const std::string name(200, 'n');
  EXPECT_EQ(errno_of([&] { static_cast<void>(listen_on(name)); }), ENAMETOOLONG);
  EXPECT_EQ(errno_of([&] { static_cast<void>(connect_to(name, milliseconds(1))); }), ENAMETOOLONG);
}

TEST(UnixSocket, AcceptReturnsWaitingClient) {
  const std::string name = testing::run_prefix() + "-accept";
  const auto listener = listen_on(name);
  ASSERT_EQ(::fcntl(listener->get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_FALSE(accept_connection(*listener));
  const auto client = connect_to(name, milliseconds(1000));
  ASSERT_TRUE(client);
  const Fd served = accept_connection(*listener);
  ASSERT_TRUE(served);
  EXPECT_FALSE(accept_connection(*listener));
  EXPECT_NE(::fcntl(served.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(served.get(), F_GETFD) & FD_CLOEXEC, 0);

  send_message(*client, bytes_of("hello"));
  Buffer buffer;
  const auto received = receive_message(served, buffer.bytes);
  ASSERT_TRUE(received);
  EXPECT_EQ(buffer.text(*received), "hello");
  EXPECT_EQ(peer_credentials(served).pid, ::getpid());
  EXPECT_EQ(peer_credentials(served).uid, ::geteuid());
}

TEST(UnixSocket, MessagesKeepBoundariesAndOrder) {
  const auto [server, client] = socket_pair();
  Buffer buffer;
  EXPECT_FALSE(receive_message(server, buffer.bytes)) << "it does not wait";
  send_message(client, bytes_of("one"));
  send_message(client, bytes_of("three"));
  EXPECT_EQ(buffer.text(*receive_message(server, buffer.bytes)), "one");
  EXPECT_EQ(buffer.text(*receive_message(server, buffer.bytes)), "three");
}

TEST(UnixSocket, OversizedMessageRaisesAndNextIsIntact) {
  const auto [server, client] = socket_pair();
  Buffer buffer;
  send_message(client, bytes_of(std::string(65, 'x')));
  send_message(client, bytes_of(std::string(64, 'y')));
  EXPECT_EQ(errno_of([&] { static_cast<void>(receive_message(server, buffer.bytes)); }), EMSGSIZE);
  EXPECT_EQ(buffer.text(*receive_message(server, buffer.bytes)), std::string(64, 'y'));
}

TEST(UnixSocket, EndOfFileIsAnEmptyMessage) {
  auto [server, client] = socket_pair();
  Buffer buffer;
  send_message(client, bytes_of("last words"));
  client.reset();
  EXPECT_EQ(buffer.text(*receive_message(server, buffer.bytes)), "last words");
  EXPECT_EQ(receive_message(server, buffer.bytes)->size, 0u);
  // No SIGPIPE.
  EXPECT_EQ(errno_of([&, &end = server] { send_message(end, bytes_of("too late")); }), EPIPE);
}

// The kernel restarts the timeout after each signal; with an interval timer it never expired.
TEST(UnixSocket, TimeoutExpiresUnderIntervalTimer) {
  testing::in_child([] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval often{{0, 20'000}, {0, 20'000}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
    const auto [server, client] = socket_pair();
    set_timeout(client, milliseconds(200));
    Buffer buffer;
    EXPECT_EQ(
        errno_of([&, &end = client] { static_cast<void>(receive_message(end, buffer.bytes)); }),
        EAGAIN);
    EXPECT_EQ(errno_of([&, &end = client] {
                for (;;) send_message(end, bytes_of(std::string(60, 'x')));
              }),
              EAGAIN);
    send_message(server, bytes_of("in time"));
    EXPECT_EQ(buffer.text(*receive_message(client, buffer.bytes)), "in time");
  });
}

// The process is stopped by Ctrl-Z or a debugger, or with its whole machine, which stops the other
// side, too.
TEST(UnixSocket, TimeoutExcludesTimeWhileProcessIsStopped) {
  const auto reader_of = [](const Fd& end) {
    return [&end] {
      set_timeout(end, milliseconds(1'000));
      Buffer buffer;
      EXPECT_EQ(buffer.text(*receive_message(end, buffer.bytes)), "at last");
    };
  };
  const auto [server, client] = socket_pair();
  const auto [stopped_server, other_client] = socket_pair();
  testing::Child child(reader_of(client));
  testing::Child other(reader_of(other_client));  // its other side was stopped, too
  std::this_thread::sleep_for(milliseconds(100));
  child.kill(SIGSTOP);
  other.kill(SIGSTOP);
  send_message(server, bytes_of("at last"));
  std::this_thread::sleep_for(milliseconds(1'200));
  child.kill(SIGCONT);
  other.kill(SIGCONT);
  std::this_thread::sleep_for(milliseconds(100));
  send_message(stopped_server, bytes_of("at last"));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(other.wait(), 0);
}

TEST(UnixSocket, ReceiveTimesOut) {
  const auto [server, client] = socket_pair();
  set_timeout(client, milliseconds(50));
  Buffer buffer;
  const std::uint64_t before = coarse_milliseconds();
  EXPECT_EQ(errno_of([&, &end = client] { static_cast<void>(receive_message(end, buffer.bytes)); }),
            EAGAIN);
  EXPECT_GE(coarse_milliseconds() - before, 40u);
}

TEST(UnixSocket, SendTimesOut) {
  const auto [server, client] = socket_pair();
  set_timeout(client, milliseconds(50));
  const std::string text(1000, 'x');
  int code = 0;
  for (int i = 0; i < 100'000 && code == 0; ++i) {
    code = errno_of([&, &end = client] { send_message(end, bytes_of(text)); });
  }
  EXPECT_EQ(code, EAGAIN) << "no process reads";
}

TEST(UnixSocket, ConnectTimesOut) {
  const std::string name = testing::run_prefix() + "-stopped";
  const auto listener = listen_on(name);  // that never accepts
  std::vector<Fd> waiting;
  int code = 0;
  while (code == 0 && waiting.size() < 10'000) {
    code = errno_of([&] { waiting.push_back(*connect_to(name, milliseconds(20))); });
  }
  EXPECT_EQ(code, EAGAIN) << waiting.size() << " wait";
}

}  // namespace
}  // namespace shmtensor
