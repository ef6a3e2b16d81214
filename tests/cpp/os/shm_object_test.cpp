#include "os/shm_object.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/error.hpp"
#include "os/mapping.hpp"
#include "os/page_reservation.hpp"
#include "support/child.hpp"
#include "support/names.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

class ShmObject : public ::testing::Test {
 protected:
  ~ShmObject() override { unlink_shm(name_); }
  // Any manager that starts on this machine checks names with the prefix of sessions.
  const std::string prefix_ = "test-" + testing::run_prefix();
  const std::string name_ = prefix_ + "-object";
};

TEST_F(ShmObject, IsCreatedOnceForThisUserOnly) {
  const Fd file = create_shm(name_);
  struct stat info{};
  ASSERT_EQ(::fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  try {
    static_cast<void>(create_shm(name_));
    ADD_FAILURE() << "it was created twice";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), EEXIST);
    EXPECT_NE(std::string(error.what()).find("/dev/shm/" + name_), std::string::npos);
  }
}

TEST_F(ShmObject, IsTheSameFileWhenOpened) {
  const Fd file = create_shm(name_);
  EXPECT_EQ(open_shm(name_).identity(), file.identity());
}

TEST_F(ShmObject, UnlinkKeepsExistingMappings) {
  const Fd file = create_shm(name_);
  EXPECT_TRUE(unlink_shm(name_));
  EXPECT_FALSE(unlink_shm(name_));
  EXPECT_TRUE(reserve_pages(file, 0, 4096));
  try {
    static_cast<void>(open_shm(name_));
    ADD_FAILURE() << "a removed name was opened";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), ENOENT);
  }
}

TEST_F(ShmObject, IsListedByItsPrefix) {
  EXPECT_TRUE(list_shm(name_).empty());
  static_cast<void>(create_shm(name_));
  EXPECT_EQ(list_shm(prefix_), std::vector<std::string>{name_});
  EXPECT_EQ(list_shm(name_), std::vector<std::string>{name_});
  EXPECT_TRUE(list_shm(name_ + "x").empty());
}

TEST_F(ShmObject, OnlyRegularFilesAreListed) {
  ASSERT_EQ(::mkdir(("/dev/shm/" + name_).c_str(), 0700), 0);
  EXPECT_TRUE(list_shm(name_).empty());
  ASSERT_EQ(::rmdir(("/dev/shm/" + name_).c_str()), 0);
}

TEST_F(ShmObject, IsInUseWhileOpenOrMapped) {
  EXPECT_EQ(shm_in_use(name_), false) << "the name does not exist";
  Fd file = create_shm(name_);
  if (!shm_in_use(name_)) GTEST_SKIP() << "the kernel does not support leases here";
  EXPECT_EQ(shm_in_use(name_), true) << "open";
  set_file_size(file, page_size());
  {
    const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_only);
    file.reset();
    EXPECT_EQ(shm_in_use(name_), true) << "mapped";
  }
  EXPECT_EQ(shm_in_use(name_), false);
  testing::Shared<testing::Turn> turn;
  testing::Child other([&] {
    const Mapping mapping = Mapping::of_file(open_shm(name_), 0, page_size(), Access::read_write);
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  EXPECT_EQ(shm_in_use(name_), true) << "mapped elsewhere";
  other.kill_and_reap();
  EXPECT_EQ(shm_in_use(name_), false);
}

TEST_F(ShmObject, IsUnlinkedUnlessItIsInUse) {
  EXPECT_FALSE(unlink_unused_shm(name_)) << "the name does not exist";
  Fd file = create_shm(name_);
  if (!shm_in_use(name_)) GTEST_SKIP() << "the kernel does not support leases here";
  EXPECT_FALSE(unlink_unused_shm(name_)) << "open";
  file.reset();
  EXPECT_TRUE(unlink_unused_shm(name_));
  EXPECT_TRUE(list_shm(name_).empty());
}

// A name is visible a moment before its creator has it open.
TEST_F(ShmObject, IsNeverCreatedWithoutAName) {
  testing::Child other([&] {
    for (int i = 0; i < 3'000; ++i) {
      const std::string name = name_ + std::to_string(i);
      const Fd file = create_shm(name);
      EXPECT_TRUE(unlink_shm(name));
    }
  });
  const std::jthread looker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const std::string& name : list_shm(name_)) unlink_unused_shm(name);
    }
  });
  EXPECT_EQ(other.wait(), 0);
}

// A process that opens the object during the check waits for a moment; no process gets a signal.
TEST_F(ShmObject, IsInspectedWhileOthersOpenIt) {
  static_cast<void>(create_shm(name_));
  testing::Child other([&] {
    for (int i = 0; i < 3'000; ++i) static_cast<void>(open_shm(name_));
  });
  const std::jthread looker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) static_cast<void>(shm_in_use(name_));
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(ShmObject, FreeSpaceIsReported) {
  const ShmSpace space = shm_space();
  EXPECT_GT(space.total, 0u);
  EXPECT_LE(space.free, space.total);
}

}  // namespace
}  // namespace shmtensor
