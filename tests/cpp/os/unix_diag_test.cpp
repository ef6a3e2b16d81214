#include "os/unix_diag.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "os/memfd.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/message_ends.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::MessageEnds;

class UnixDiagTest : public ::testing::Test {
 protected:
  std::pair<Fd, Fd> known_ = socket_pair();
  UnixDiag diag_{known_.first};
  MessageEnds sockets_ = MessageEnds::of_sockets();
};

TEST_F(UnixDiagTest, PeerIsTheOtherEnd) {
  const auto peer = diag_.peer_of(sockets_.writer.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->inode, sockets_.reader.identity().inode);
  EXPECT_NE(peer->cookie, 0u);
  EXPECT_FALSE(diag_.is_closed(*peer));
}

TEST_F(UnixDiagTest, SocketIsClosedWhenNoProcessHasIt) {
  const auto peer = diag_.peer_of(sockets_.writer.get());
  ASSERT_TRUE(peer);
  Child child([] { ::pause(); });
  sockets_.reader.reset();
  EXPECT_FALSE(diag_.is_closed(*peer)) << "the child has it";
  child.kill_and_reap();
  EXPECT_TRUE(diag_.is_closed(*peer));
  EXPECT_FALSE(diag_.peer_of(sockets_.writer.get()));
}

TEST_F(UnixDiagTest, SocketInAMessageIsNotClosed) {
  const auto peer = diag_.peer_of(sockets_.writer.get());
  ASSERT_TRUE(peer);
  constexpr std::array<std::byte, 1> kByte{};
  const int end = sockets_.reader.get();
  send_message(known_.second, kByte, std::span(&end, 1));
  sockets_.reader.reset();
  EXPECT_FALSE(diag_.is_closed(*peer));
  std::array<std::byte, 1> buffer{};
  static_cast<void>(receive_message(known_.first, buffer));
  EXPECT_TRUE(diag_.is_closed(*peer));
}

TEST_F(UnixDiagTest, AnotherSocketWithTheInodeIsNotTheOne) {
  auto peer = diag_.peer_of(sockets_.writer.get());
  ASSERT_TRUE(peer);
  ++peer->cookie;
  EXPECT_TRUE(diag_.is_closed(*peer));
}

TEST_F(UnixDiagTest, OnlyConnectedUnixSocketsHaveAPeer) {
  EXPECT_FALSE(diag_.peer_of(create_memfd("file").get()));
  EXPECT_FALSE(diag_.peer_of(Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)).get()));
  EXPECT_FALSE(diag_.peer_of(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)).get()));
  EXPECT_FALSE(diag_.peer_of(-1));
}

// The kernel answers ENOENT also where it has no part for Unix sockets.
TEST_F(UnixDiagTest, NothingIsKnownIfAnOpenSocketIsNotFound) {
  const auto peer = diag_.peer_of(sockets_.writer.get());
  ASSERT_TRUE(peer);
  sockets_.reader.reset();
  UnixDiag blind(create_memfd("not a socket"));
  EXPECT_FALSE(blind.peer_of(sockets_.writer.get()));
  EXPECT_FALSE(blind.is_closed(*peer));
  EXPECT_TRUE(diag_.is_closed(*peer));
}

}  // namespace
}  // namespace shmtensor
