#include "os/ready_pipe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "os/memfd.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using testing::Child;

TEST(ReadyPipe, IsReadableFromRaiseUntilLower) {
  const ReadyPipe pipe = ReadyPipe::create();
  EXPECT_NE(pipe.number(), 0u);
  EXPECT_FALSE(pipe.is_raised());
  pipe.lower();
  for (int raised = 0; raised < 200; ++raised) pipe.raise();
  EXPECT_TRUE(is_readable(pipe.descriptor()));
  pipe.lower();
  EXPECT_FALSE(is_readable(pipe.descriptor()));
}

TEST(ReadyPipe, CanBeRaisedWhenItIsFull) {
  const ReadyPipe pipe = ReadyPipe::create();
  for (int raised = 0; raised < 100'000; ++raised) pipe.raise();
  EXPECT_TRUE(pipe.is_raised());
  pipe.lower();
  EXPECT_FALSE(pipe.is_raised());
}

TEST(ReadyPipe, IsSharedByProcesses) {
  const ReadyPipe pipe = ReadyPipe::create();
  Child raiser([&] { pipe.raise(); });
  EXPECT_EQ(raiser.wait(), 0);
  EXPECT_TRUE(pipe.is_raised());
  Child lowerer([&] { pipe.lower(); });
  EXPECT_EQ(lowerer.wait(), 0);
  EXPECT_FALSE(pipe.is_raised());
}

TEST(ReadyPipe, HasANumberOfItsOwn) {
  const ReadyPipe one = ReadyPipe::create();
  ReadyPipe other = ReadyPipe::create();
  EXPECT_NE(one.number(), other.number());
  EXPECT_EQ(ReadyPipe(one.descriptor().duplicate()).number(), one.number());
  other = ReadyPipe();
  EXPECT_EQ(other.number(), 0u);
}

TEST(ReadyPipe, LeavesAnotherFileAloneThatHasItsDescriptor) {
  const Fd file = create_memfd("the program's");
  int number = -1;
  {
    const ReadyPipe pipe = ReadyPipe::create();
    number = pipe.descriptor().get();
    ASSERT_EQ(::dup2(file.get(), number), number);
    EXPECT_FALSE(pipe.is_open());
    pipe.raise();
    pipe.lower();
    EXPECT_FALSE(pipe.is_raised());
  }
  const Fd same(number);
  EXPECT_TRUE(same.still_is(file.identity()));
  EXPECT_EQ(::lseek(same.get(), 0, SEEK_END), 0) << "nothing was written";
}

}  // namespace
}  // namespace shmtensor
