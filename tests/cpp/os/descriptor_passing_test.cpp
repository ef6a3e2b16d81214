// Descriptors and credentials that travel with messages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::in_child;

const std::array<std::byte, 1> kByte{};

void send_files(const Fd& socket, const std::vector<const Fd*>& files) {
  std::vector<int> numbers;
  for (const Fd* file : files) numbers.push_back(file->get());
  send_message(socket, kByte, numbers);
}

TEST(DescriptorPassing, ReceivedFileIsCloseOnExec) {
  const auto [server, client] = socket_pair();
  const Fd file = create_memfd("one");
  send_files(client, {&file});
  std::array<std::byte, 8> buffer{};
  const auto received = receive_message(server, buffer);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->size, 1u);
  ASSERT_EQ(received->fds.size(), 1u);
  EXPECT_EQ(received->fds[0].identity(), file.identity());
  EXPECT_NE(received->fds[0].get(), file.get());
  EXPECT_NE(::fcntl(received->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(DescriptorPassing, AcceptsMaximumDescriptorsPerMessage) {
  const auto [server, client] = socket_pair();
  ask_for_sender(server);  // so that the credentials need room too
  const Fd first = create_memfd("first");
  const Fd other = create_memfd("other");
  std::vector<const Fd*> files(kMaxFdsPerMessage, &other);
  files[0] = &first;
  send_files(client, files);
  std::array<std::byte, 8> buffer{};
  const auto received = receive_message(server, buffer);
  ASSERT_EQ(received->fds.size(), kMaxFdsPerMessage);
  EXPECT_EQ(received->fds[0].identity(), first.identity());
  EXPECT_EQ(received->fds[kMaxFdsPerMessage - 1].identity(), other.identity());
  EXPECT_EQ(received->sender, ::getpid());
}

TEST(DescriptorPassing, LostDescriptorsRaiseWithoutLeaks) {
  in_child([] {
    const auto [server, client] = socket_pair();
    const Fd file = create_memfd("many");
    send_files(client, {&file, &file, &file});
    send_message(client, kByte);
    // Room for one of the three.
    const std::uint64_t before = testing::open_descriptors();
    const Fd highest = file.duplicate();
    const auto next = static_cast<rlim_t>(highest.get()) + 2;
    rlimit limit{next, next};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::array<std::byte, 8> buffer{};
    try {
      static_cast<void>(receive_message(server, buffer));
      ADD_FAILURE() << "three descriptors were received in the room of one";
    } catch (const OsError& error) {
      EXPECT_EQ(error.code(), EMFILE);
      EXPECT_NE(std::string(error.what()).find("RLIMIT_NOFILE"), std::string::npos);
    }
    EXPECT_EQ(testing::open_descriptors(), before + 1);
    EXPECT_EQ(receive_message(server, buffer)->size, 1u) << "the connection still works";
  });
}

TEST(DescriptorPassing, TooManyDescriptorsForReceiverRaise) {
  const auto [server, client] = socket_pair();
  const Fd file = create_memfd("too many");
  const std::uint64_t before = testing::open_descriptors();
  // The descriptors of two messages, assembled by hand.
  std::array<int, 2 * kMaxFdsPerMessage + 8> numbers{};
  numbers.fill(file.get());
  std::array<std::byte, CMSG_SPACE(sizeof numbers)> control{};
  iovec part{const_cast<std::byte*>(kByte.data()), 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof numbers);
  ASSERT_EQ(::sendmsg(client.get(), &message, 0), 1);
  std::array<std::byte, 8> buffer{};
  EXPECT_THROW(static_cast<void>(receive_message(server, buffer)), OsError);
  EXPECT_EQ(testing::open_descriptors(), before);
}

TEST(DescriptorPassing, KernelReportsTheSender) {
  auto [server, client] = socket_pair();
  ask_for_sender(server);
  Child child([&end = client] { send_message(end, kByte); });
  std::array<std::byte, 8> buffer{};
  std::optional<Received> received;
  ASSERT_TRUE(testing::eventually(
      [&, &end = server] { return (received = receive_message(end, buffer)).has_value(); }));
  EXPECT_EQ(received->sender, child.pid());
  EXPECT_EQ(child.wait(), 0);
}

TEST(DescriptorPassing, PeerPidfdReportsExit) {
  auto [server, client] = socket_pair();
  const Fd pidfd = peer_pidfd(client);
  if (!pidfd) GTEST_SKIP() << "the kernel is older than 6.5";
  EXPECT_FALSE(has_ended(pidfd)) << "that is this process";
}

}  // namespace
}  // namespace shmtensor
