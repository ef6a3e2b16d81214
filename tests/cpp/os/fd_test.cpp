#include "os/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "os/memfd.hpp"

namespace shmtensor {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(Fd, ClosesWhatItOwns) {
  int number = -1;
  {
    const Fd file = create_memfd("fd");
    number = file.get();
    EXPECT_TRUE(file);
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, MovedFromIsEmpty) {
  Fd first = create_memfd("first");
  Fd second = create_memfd("second");
  const int kept = first.get();
  const int closed = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), kept);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): under test
  EXPECT_FALSE(is_open(closed));
  EXPECT_TRUE(is_open(kept));

  const Fd third(std::move(second));
  EXPECT_EQ(third.get(), kept);
  EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move)
}

TEST(Fd, MoveToItselfKeepsIt) {
  Fd file = create_memfd("self");
  Fd& same = file;
  file = std::move(same);
  EXPECT_TRUE(file);
  EXPECT_TRUE(is_open(file.get()));
}

TEST(Fd, ReleaseTransfersOwnership) {
  Fd file = create_memfd("given away");
  const int number = file.release();
  EXPECT_FALSE(file);
  file.reset();
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(Fd, DuplicateRefersToSameFileAndIsCloseOnExec) {
  const Fd file = create_memfd("original");
  const Fd copy = file.duplicate();
  EXPECT_NE(copy.get(), file.get());
  EXPECT_EQ(copy.identity(), file.identity());
  EXPECT_NE(::fcntl(copy.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Fd, EmptyFdHasNoIdentity) {
  EXPECT_THROW(static_cast<void>(Fd().identity()), OsError);
  EXPECT_THROW(static_cast<void>(Fd().duplicate()), OsError);
  EXPECT_FALSE(Fd().still_is({}));
}

TEST(Fd, DetectsReusedDescriptorNumber) {
  Fd file = create_memfd("ours");
  const FileIdentity identity = file.identity();
  EXPECT_TRUE(file.still_is(identity));
  ASSERT_EQ(::close(file.get()), 0);
  EXPECT_FALSE(file.still_is(identity));

  const Fd other = create_memfd("unrelated");
  ASSERT_EQ(other.get(), file.get()) << "the lowest free number is assigned first";
  EXPECT_FALSE(file.still_is(identity));
  static_cast<void>(file.release());
  EXPECT_TRUE(is_open(other.get()));
}

}  // namespace
}  // namespace shmtensor
