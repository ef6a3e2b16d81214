#include "os/socket_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

using std::chrono::milliseconds;

class SocketDirectoryTest : public ::testing::Test {
 protected:
  SocketDirectoryTest() { path_ = std::string(::mkdtemp(path_.data())) + "/made"; }
  ~SocketDirectoryTest() override {
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }
  [[nodiscard]] SocketDirectory directory() const { return {path_, "test-", 6}; }
  [[nodiscard]] bool exists(const std::string& name) const {
    return std::filesystem::exists(path_ + '/' + name);
  }

  std::string path_ = "/tmp/shmtensor-test-XXXXXX";
};

TEST_F(SocketDirectoryTest, IsMadeForThisUserOnly) {
  const SocketDirectory made = directory();
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(made.identity(), directory().identity());
}

TEST_F(SocketDirectoryTest, OneSocketListensOnAName) {
  const SocketDirectory made = directory();
  EXPECT_FALSE(connect_to(made.path_of("test-a"), milliseconds(100)));
  const auto first = made.listen("test-a");
  ASSERT_TRUE(first);
  EXPECT_FALSE(made.listen("test-a"));
  EXPECT_TRUE(made.listen("test-b"));
  EXPECT_TRUE(connect_to(made.path_of("test-a"), milliseconds(100)));
  made.remove("test-a");
  EXPECT_FALSE(connect_to(made.path_of("test-a"), milliseconds(100)));
}

TEST_F(SocketDirectoryTest, FilesWithoutListenerAreReplaced) {
  const SocketDirectory made = directory();
  static_cast<void>(made.listen("test-a"));
  const auto bound = bind_to(path_ + "/test-b");  // its process could never listen inside the lock
  const auto foreign = bind_to(path_ + "/other");
  const auto living = made.listen("test-c");
  EXPECT_FALSE(exists("test-a"));
  EXPECT_FALSE(exists("test-b"));
  EXPECT_TRUE(exists("test-c"));
  EXPECT_TRUE(exists("other"));
}

TEST_F(SocketDirectoryTest, ListenerWithAFullBacklogIsKept) {
  const SocketDirectory made = directory();
  const auto listener = bind_to(path_ + "/test-a");
  ASSERT_EQ(::listen(listener->get(), 0), 0);
  const auto waiting = connect_to(made.path_of("test-a"), milliseconds(100));
  EXPECT_FALSE(made.listen("test-a"));
  EXPECT_FALSE(made.listen("test-a"));  // its backlog is full
  EXPECT_TRUE(exists("test-a"));
}

TEST_F(SocketDirectoryTest, LockOfAStoppedProcessIsReported) {
  const SocketDirectory made = directory();
  const Fd other(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  EXPECT_THROW(static_cast<void>(made.listen("test-a")), Error);
  ASSERT_EQ(::flock(other.get(), LOCK_UN), 0);
  EXPECT_TRUE(made.listen("test-a"));
}

}  // namespace
}  // namespace shmtensor
