#include "os/page_reservation.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <cerrno>

#include "base/align.hpp"
#include "base/error.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/private_shm.hpp"

namespace shmtensor {
namespace {

using testing::in_child;

TEST(FileSpace, ReserveExtendsAndAllocates) {
  const Fd file = create_memfd("space");
  EXPECT_TRUE(reserve_pages(file, 0, 40 * kMiB));  // more than one step
  EXPECT_EQ(file_size(file), 40 * kMiB);
  EXPECT_EQ(file_usage(file), 40 * kMiB);
  EXPECT_TRUE(reserve_pages(file, 4 * kMiB, kMiB));
  EXPECT_EQ(file_size(file), 40 * kMiB);
}

TEST(FileSpace, ReservePastTheEndLeavesAHole) {
  const Fd file = create_memfd("space");
  EXPECT_TRUE(reserve_pages(file, kMiB, kMiB));
  EXPECT_EQ(file_size(file), 2 * kMiB);
  EXPECT_EQ(file_usage(file), kMiB);
}

TEST(FileSpace, ReserveKeepsContents) {
  const Fd file = create_memfd("space");
  ASSERT_TRUE(reserve_pages(file, 0, page_size()));
  const Mapping mapping = Mapping::of_file(file, 0, 2 * page_size(), Access::read_write);
  mapping.data()[17] = std::byte{5};
  ASSERT_TRUE(reserve_pages(file, 0, 2 * page_size()));
  EXPECT_EQ(mapping.data()[17], std::byte{5});
  EXPECT_EQ(mapping.data()[page_size()], std::byte{0});
}

TEST(FileSpace, DiscardFreesWholePagesThatReadAsZeros) {
  const Fd file = create_memfd("space");
  ASSERT_TRUE(reserve_pages(file, 0, 4 * page_size()));
  const Mapping mapping = Mapping::of_file(file, 0, 4 * page_size(), Access::read_write);
  for (int page = 0; page < 4; ++page) {
    mapping.data()[static_cast<std::uint64_t>(page) * page_size()] = std::byte{1};
    mapping.data()[static_cast<std::uint64_t>(page) * page_size() + 100] = std::byte{1};
  }
  // From within page 0 to within page 3: only 1 and 2 are completely in the range.
  discard_pages(file, 50, 3 * page_size());
  EXPECT_EQ(file_usage(file), 2 * page_size());
  EXPECT_EQ(file_size(file), 4 * page_size());
  EXPECT_EQ(mapping.data()[100], std::byte{1});
  EXPECT_EQ(mapping.data()[page_size()], std::byte{0});
  EXPECT_EQ(mapping.data()[2 * page_size() + 100], std::byte{0});
  EXPECT_EQ(mapping.data()[3 * page_size()], std::byte{1});
}

TEST(FileSpace, DiscardOfPartialPageDoesNothing) {
  const Fd file = create_memfd("space");
  ASSERT_TRUE(reserve_pages(file, 0, 2 * page_size()));
  discard_pages(file, 1, page_size());
  discard_pages(file, 0, 0);
  EXPECT_EQ(file_usage(file), 2 * page_size());
}

TEST(FileSpace, FileSizeLimitReturnsErrorNotSignal) {
  in_child([] {
    const Fd file = create_memfd("space");
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = kMiB;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_TRUE(reserve_pages(file, 0, kMiB));
    EXPECT_FALSE(reserve_pages(file, 0, kMiB + page_size()));
    EXPECT_EQ(file_usage(file), kMiB);
  });
}

TEST(FileSpace, FullFileSystemReturnsError) {
  if (!testing::private_shm_works()) GTEST_SKIP() << "mount namespaces are not available";
  in_child([] {
    ASSERT_TRUE(testing::enter_private_shm(4 * kMiB));
    const Fd file = create_shm("full");
    EXPECT_TRUE(reserve_pages(file, 0, 3 * kMiB));
    EXPECT_FALSE(reserve_pages(file, 3 * kMiB, 3 * kMiB));
    EXPECT_TRUE(reserve_pages(file, 3 * kMiB, kMiB / 2));
    EXPECT_EQ(shm_space().total, 4 * kMiB);
  });
}

// A signal makes the kernel undo a reservation that is under way.
TEST(FileSpace, FastTimerDoesNotStopReservation) {
  in_child([] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval often{{0, 5000}, {0, 5000}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
    const Fd file = create_memfd("space");
    EXPECT_TRUE(reserve_pages(file, 0, 256 * kMiB));
    EXPECT_EQ(file_usage(file), 256 * kMiB);
  });
}

TEST(FileSpace, NonFileRaises) {
  EXPECT_THROW(static_cast<void>(reserve_pages(Fd(), 0, 1)), OsError);
  EXPECT_THROW(static_cast<void>(file_size(Fd())), OsError);
  EXPECT_THROW(set_file_size(Fd(), 1), OsError);
  EXPECT_EQ(file_usage(Fd()), 0u);
  discard_pages(Fd(), 0, page_size());
}

}  // namespace
}  // namespace shmtensor
