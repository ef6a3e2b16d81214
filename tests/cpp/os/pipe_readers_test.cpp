#include "os/pipe_readers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "os/memfd.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/message_ends.hpp"
#include "support/names.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::MessageEnds;

constexpr std::array<std::byte, 1> kAnyByte{};

Fd location_of(const MessageEnds& pipe) {
  return open_pipe_location(pipe.writer.get(), pipe_number(pipe.writer.get()));
}

TEST(PipeReaders, OnlyAnonymousPipesHaveANumber) {
  const MessageEnds pipe = MessageEnds::of_pipe();
  EXPECT_NE(pipe_number(pipe.reader.get()), 0u);
  EXPECT_EQ(pipe_number(pipe.reader.get()), pipe_number(pipe.writer.get()));
  EXPECT_EQ(pipe_number(socket_pair().first.get()), 0u);
  EXPECT_EQ(pipe_number(create_memfd("file").get()), 0u);
  EXPECT_EQ(pipe_number(-1), 0u);
  const std::string name = ::testing::TempDir() + "shmtensor-test-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  const Fd named(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  ::unlink(name.c_str());
  ASSERT_TRUE(named);
  EXPECT_EQ(pipe_number(named.get()), 0u) << "it may get another reader";
}

TEST(PipeReaders, ReaderIsSeenWhileAnyProcessHasTheEnd) {
  MessageEnds pipe = MessageEnds::of_pipe();
  const Fd location = location_of(pipe);
  EXPECT_TRUE(may_have_reader(location));
  Child child([] { ::pause(); });
  ASSERT_EQ(::write(pipe.writer.get(), "unread", 6), 6);
  pipe.reader.reset();
  EXPECT_TRUE(may_have_reader(location)) << "the child's";
  child.kill_and_reap();
  EXPECT_FALSE(may_have_reader(location));
  pipe.writer.reset();
  EXPECT_FALSE(may_have_reader(location));
}

TEST(PipeReaders, ReaderIsSeenWhileItsEndIsInAMessage) {
  const auto [server, client] = socket_pair();
  MessageEnds pipe = MessageEnds::of_pipe();
  const Fd location = location_of(pipe);
  const int end = pipe.reader.get();
  send_message(client, kAnyByte, std::span(&end, 1));
  pipe.reader.reset();
  EXPECT_TRUE(may_have_reader(location));
  std::array<std::byte, 1> buffer{};
  static_cast<void>(receive_message(server, buffer));
  EXPECT_FALSE(may_have_reader(location));
}

TEST(PipeReaders, LocationIsNeitherEnd) {
  MessageEnds pipe = MessageEnds::of_pipe();
  const Fd location = location_of(pipe);
  ASSERT_TRUE(location);
  pipe.writer.reset();
  EXPECT_TRUE(may_have_reader(location));
  char byte = 0;
  EXPECT_EQ(::read(pipe.reader.get(), &byte, 1), 0) << "EOF";
  MessageEnds other = MessageEnds::of_pipe();
  const Fd kept = location_of(other);
  other.reader.reset();
  EXPECT_FALSE(may_have_reader(kept));
  ::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(::write(other.writer.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::signal(SIGPIPE, SIG_DFL);
}

// A reader that waits for the last writer is woken when the check ends.
TEST(PipeReaders, WaitingReaderGetsEofAmongChecks) {
  for (int i = 0; i < 200; ++i) {
    MessageEnds pipe = MessageEnds::of_pipe();
    const Fd location = location_of(pipe);
    Child child([&] {
      pipe.writer.reset();
      char byte = 0;
      EXPECT_EQ(::read(pipe.reader.get(), &byte, 1), 0);
    });
    pipe.writer.reset();
    for (int check = 0; check < i; ++check) EXPECT_TRUE(may_have_reader(location));
    pipe.reader.reset();
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(PipeReaders, OnlyALocationOfThatPipeIsOne) {
  const MessageEnds pipe = MessageEnds::of_pipe();
  const std::uint32_t number = pipe_number(pipe.writer.get());
  EXPECT_TRUE(is_pipe_location(location_of(pipe), number));
  EXPECT_FALSE(is_pipe_location(location_of(pipe), number + 1));
  EXPECT_FALSE(is_pipe_location(pipe.writer, number)) << "it would hold up EOF";
  EXPECT_FALSE(is_pipe_location(pipe.reader, number));
  EXPECT_FALSE(is_pipe_location(Fd(), number));
  EXPECT_FALSE(is_pipe_location(Fd(::open("/dev/null", O_PATH | O_CLOEXEC)), number));
  EXPECT_FALSE(open_pipe_location(pipe.writer.get(), number + 1));
}

TEST(PipeReaders, WhatCannotBeOpenedMayHaveReaders) { EXPECT_TRUE(may_have_reader(Fd())); }

}  // namespace
}  // namespace shmtensor
