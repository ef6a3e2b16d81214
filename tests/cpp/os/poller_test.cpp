#include "os/poller.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using Tags = std::vector<std::uint64_t>;

void send_byte(const Fd& socket) { send_message(socket, std::array<std::byte, 1>{}); }

TEST(Poller, ReportsReadableDescriptor) {
  Poller poller;
  const auto [first, first_peer] = socket_pair();
  const auto [second, second_peer] = socket_pair();
  poller.add(first, 1);
  poller.add(second, std::uint64_t{2} << 32 | 7);
  EXPECT_EQ(poller.wait(0), Tags{});
  send_byte(second_peer);
  EXPECT_EQ(poller.wait(-1), (Tags{std::uint64_t{2} << 32 | 7}));
  send_byte(first_peer);
  Tags both = poller.wait(-1);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, (Tags{1, std::uint64_t{2} << 32 | 7})) << "level-triggered";
}

TEST(Poller, ReportsClosedPeer) {
  Poller poller;
  auto [ours, theirs] = socket_pair();
  poller.add(ours, 5);
  theirs.reset();
  EXPECT_EQ(poller.wait(-1), Tags{5});
}

TEST(Poller, ReportsProcessExit) {
  Poller poller;
  testing::Child child([] { ::pause(); });
  const Fd pidfd = open_pidfd({child.pid(), 0});
  ASSERT_TRUE(pidfd);
  poller.add(pidfd, 9);
  EXPECT_EQ(poller.wait(0), Tags{});
  child.kill();
  EXPECT_EQ(poller.wait(30'000), Tags{9});
}

TEST(Poller, IgnoresRemovedAndClosedDescriptors) {
  Poller poller;
  const auto [first, first_peer] = socket_pair();
  auto [second, second_peer] = socket_pair();
  poller.add(first, 1);
  poller.add(second, 2);
  send_byte(first_peer);
  send_byte(second_peer);
  poller.remove(first);
  second.reset();
  EXPECT_EQ(poller.wait(0), Tags{});
  poller.remove(first);  // twice does no harm
}

TEST(Poller, WaitsForGivenTimeout) {
  Poller poller;
  const std::uint64_t before = coarse_milliseconds();
  EXPECT_EQ(poller.wait(30), Tags{});
  EXPECT_GE(coarse_milliseconds() - before, 20u);
}

TEST(Poller, RejectsUnpollableDescriptors) {
  Poller poller;
  EXPECT_THROW(poller.add(Fd(), 1), OsError);
  EXPECT_THROW(poller.add(create_memfd("file"), 1), OsError);
}

}  // namespace
}  // namespace shmtensor
