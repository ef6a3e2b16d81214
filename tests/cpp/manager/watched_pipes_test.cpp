#include "manager/watched_pipes.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "os/limits.hpp"
#include "os/pipe_readers.hpp"
#include "support/message_ends.hpp"

namespace shmtensor {
namespace {

using testing::MessageEnds;

constexpr std::uint64_t kStart = 1'000'000;
constexpr std::uint64_t kGrace = WatchedPipes::kGraceMilliseconds;
constexpr std::uint64_t kInterval = WatchedPipes::kIntervalMilliseconds;

class WatchedPipesTest : public ::testing::Test {
 protected:
  std::uint32_t add(const MessageEnds& ends, std::uint64_t now = kStart) {
    const std::uint32_t number = pipe_number(ends.writer.get());
    pipes_.add(number, open_pipe_location(ends.writer.get(), number), now);
    return number;
  }

  WatchedPipes pipes_{3};
};

TEST_F(WatchedPipesTest, MessagesAreUnreadAfterTheGracePeriodWithoutReader) {
  MessageEnds read = MessageEnds::of_pipe();
  MessageEnds left = MessageEnds::of_pipe();
  EXPECT_FALSE(pipes_.next_check());
  const std::uint32_t number = add(left);
  EXPECT_NE(add(read), 0u);
  EXPECT_EQ(pipes_.next_check(), kStart + kInterval);
  left.reader.reset();
  std::uint64_t now = kStart + kInterval;
  EXPECT_TRUE(pipes_.check(now).empty());
  EXPECT_EQ(pipes_.next_check(), now + kInterval);
  EXPECT_TRUE(pipes_.check(now + kGrace - 1).empty());
  EXPECT_EQ(pipes_.next_check(), now + kGrace);
  EXPECT_EQ(pipes_.check(now + kGrace), std::vector{number});
  EXPECT_EQ(pipes_.count(), 1u) << "that which has a reader";
  EXPECT_TRUE(pipes_.check(now + 100 * kGrace).empty());
  read.reader.reset();
  read.writer.reset();
  now += 101 * kGrace;
  EXPECT_TRUE(pipes_.check(now).empty()) << "its grace period begins with the first check";
  EXPECT_EQ(pipes_.check(now + kGrace).size(), 1u);
  EXPECT_FALSE(pipes_.next_check());
}

TEST_F(WatchedPipesTest, EachPipeCostsOneDescriptorUntilItIsGone) {
  const std::uint64_t before = open_descriptors();
  {
    const MessageEnds ends = MessageEnds::of_pipe();
    for (int i = 0; i < 3; ++i) add(ends);
    EXPECT_EQ(pipes_.count(), 1u);
    EXPECT_EQ(open_descriptors(), before + 3);
  }
  EXPECT_EQ(open_descriptors(), before + 1);
  EXPECT_TRUE(pipes_.check(kStart).empty());
  EXPECT_EQ(pipes_.check(kStart + kGrace).size(), 1u);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(WatchedPipesTest, NoMoreThanTheLimitAreWatched) {
  std::vector<MessageEnds> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(MessageEnds::of_pipe());
    add(all.back());
  }
  EXPECT_EQ(pipes_.count(), 3u);
}

TEST_F(WatchedPipesTest, AnEndOfAPipeIsRefused) {
  const MessageEnds ends = MessageEnds::of_pipe();
  const std::uint32_t number = pipe_number(ends.writer.get());
  pipes_.add(number, ends.writer.duplicate(), kStart);
  pipes_.add(number, ends.reader.duplicate(), kStart);
  pipes_.add(number, Fd(), kStart);
  EXPECT_EQ(pipes_.count(), 0u);
}

}  // namespace
}  // namespace shmtensor
