#include "os/mapped_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/align.hpp"
#include "base/error.hpp"
#include "support/child.hpp"
#include "support/descriptors.hpp"

namespace shmtensor {
namespace {

class UserFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }
  ~UserFileTest() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  std::string folder_ = ::testing::TempDir() + "shmtensor-XXXXXX";
  std::string path_;
};

TEST_F(UserFileTest, IsMappedCompletely) {
  write("twelve bytes");
  const std::uint64_t descriptors = testing::open_descriptors();
  const MappedFile file = map_file(path_, 0, Access::read_only);
  EXPECT_EQ(testing::open_descriptors(), descriptors) << "the descriptor is closed";
  EXPECT_EQ(file.size, 12u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.mapping.data()), 12), "twelve bytes");
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(file.identity, (FileIdentity{info.st_dev, info.st_ino}));
}

// Regression: a receiver whose file had been replaced by a pipe waited for a writer.
TEST_F(UserFileTest, PipeIsRejectedWithoutBlocking) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  testing::in_child(
      [&] { EXPECT_THROW(static_cast<void>(map_file(path_, 0, Access::read_only)), OsError); });
}

TEST_F(UserFileTest, IsCreatedAndExtendedWithReservedBlocks) {
  const MappedFile file = map_file(path_, 3 * kMiB, Access::read_write);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), 3 * kMiB);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, 3 * kMiB);
  file.mapping.data()[3 * kMiB - 1] = std::byte{1};
}

}  // namespace
}  // namespace shmtensor
