// Owners of files and connections, also where the kernel maps several users to one. Most tests need
// root, to act as two users, and a user namespace.
#include "os/same_user.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "manager/connection.hpp"
#include "os/memfd.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/names.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::fresh_session;
using testing::in_child;
using testing::Shared;
using testing::Turn;

constexpr uid_t kStranger = 1'234;
constexpr uid_t kOverflow = 65'534;

bool write_text(const char* path, const std::string& text) {
  const Fd file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Gives this process the overflow uid, in a namespace that maps no other one.
void become_nobody() {
  ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
  ASSERT_TRUE(write_text("/proc/self/uid_map", "65534 0 1"));
  ASSERT_EQ(::setresuid(kOverflow, kOverflow, kOverflow), 0);
  ASSERT_EQ(::geteuid(), kOverflow);
}

void become_stranger() { ASSERT_EQ(::setresuid(kStranger, kStranger, kStranger), 0); }

TEST(UidMap, FullRangeDistinguishesAllUsers) {
  EXPECT_TRUE(maps_every_uid("         0          0 4294967295\n"));
  EXPECT_TRUE(maps_every_uid("0 1000 1\n1 0 1000\n1001 1001 4294966294\n")) << "in several lines";
}

TEST(UidMap, PartialRangeDoesNotDistinguishAllUsers) {
  EXPECT_FALSE(maps_every_uid("         0       1000          1\n"));
  EXPECT_FALSE(maps_every_uid("0 100000 65536\n"));
  EXPECT_FALSE(maps_every_uid("0 1000 1\n1 100000 65536\n"));
  EXPECT_FALSE(maps_every_uid("0 0 4294967294\n")) << "all but one";
}

TEST(UidMap, UnreadableMapDoesNotDistinguishAllUsers) {
  EXPECT_FALSE(maps_every_uid(""));
  EXPECT_FALSE(maps_every_uid("\n"));
  EXPECT_FALSE(maps_every_uid("no map"));
  EXPECT_FALSE(maps_every_uid("0 0"));
  EXPECT_FALSE(maps_every_uid("0 0 99999999999999999999999"));
  EXPECT_FALSE(maps_every_uid("0 0 -1"));
}

TEST(SameUser, EqualUidSufficesIfAllUsersAreMapped) {
  const Fd mine = create_memfd("mine");
  EXPECT_TRUE(owns_file(mine));
  EXPECT_FALSE(owns_file(Fd()));
  const auto [one, other] = socket_pair();
  EXPECT_EQ(user_of_peer(one), PeerUser::same);
}

class Unmapped : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    const auto namespaces = [] { return ::unshare(CLONE_NEWUSER) == 0 ? 1 : 0; };
    if (testing::exit_of(namespaces) != 1) GTEST_SKIP() << "user namespaces are not available";
  }
};

TEST_F(Unmapped, OverflowUidIsAmbiguous) {
  EXPECT_FALSE(uid_is_ambiguous());
  in_child([] {
    ASSERT_EQ(::setresuid(kOverflow, kOverflow, kOverflow), 0);
    EXPECT_FALSE(uid_is_ambiguous()) << "the machine's user nobody";
  });
  in_child([] {
    ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
    EXPECT_TRUE(uid_is_ambiguous()) << "before anything is mapped";
    ASSERT_TRUE(write_text("/proc/self/uid_map", "1000 0 1"));
    EXPECT_FALSE(uid_is_ambiguous()) << "mapped to a number that no other user has";
  });
  in_child([] {
    become_nobody();
    EXPECT_TRUE(uid_is_ambiguous());
  });
}

TEST_F(Unmapped, FileOfOtherUserIsRejected) {
  const Fd mine = create_memfd("mine");
  struct stat before{};
  ASSERT_EQ(::fstat(mine.get(), &before), 0);
  const Fd theirs = create_memfd("theirs");
  const Fd prepared = create_memfd("prepared");
  for (const Fd* file : {&theirs, &prepared}) {
    ASSERT_EQ(::fchown(file->get(), kStranger, kStranger), 0);
  }
  ASSERT_EQ(::fcntl(prepared.get(), F_SETFL, O_NOATIME), 0)
      << "only its owner may, which is misleading";
  in_child([&] {
    become_nobody();
    struct stat info{};
    ASSERT_EQ(::fstat(theirs.get(), &info), 0);
    EXPECT_EQ(info.st_uid, ::geteuid()) << "the number equals this process's";
    EXPECT_TRUE(owns_file(mine));
    EXPECT_FALSE(owns_file(theirs));
    EXPECT_FALSE(owns_file(prepared));
  });
  struct stat after{};
  ASSERT_EQ(::fstat(mine.get(), &after), 0);
  EXPECT_EQ(after.st_mode, before.st_mode);
}

TEST_F(Unmapped, NameOfOtherUserIsNotListed) {
  const SessionId id = fresh_session();
  const std::string mine = object_name(id) + "-1";
  const std::string theirs = object_name(id) + "-2";
  const Fd own = create_shm(mine);  // open, because a sweep removes names that no process uses
  const Fd file = create_shm(theirs);
  ASSERT_EQ(::fchown(file.get(), kStranger, kStranger), 0);
  ASSERT_EQ(::fchmod(file.get(), 0666), 0);
  in_child([&] {
    become_nobody();
    EXPECT_EQ(list_shm(object_name(id)), std::vector{mine});
  });
  EXPECT_TRUE(unlink_shm(mine));
  EXPECT_TRUE(unlink_shm(theirs));
}

TEST_F(Unmapped, ProcessOfOtherUserIsRejected) {
  Shared<Turn> turn;
  Child stranger([&] {
    become_stranger();
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  in_child([&] {
    become_nobody();
    const std::vector<pid_t> found = own_processes();
    EXPECT_NE(std::find(found.begin(), found.end(), ::getpid()), found.end());
    EXPECT_EQ(std::find(found.begin(), found.end(), stranger.pid()), found.end());
  });
  stranger.kill_and_reap();
}

TEST_F(Unmapped, ConnectionOfOtherUserIsRejected) {
  const std::string name = object_name(fresh_session());
  Shared<Turn> turn;
  Child victim([&] {
    become_nobody();
    const auto listener = listen_on(name);
    turn->set(1);
    ASSERT_TRUE(turn->reaches(2));
    const Fd theirs = accept_connection(*listener);
    ASSERT_TRUE(theirs);
    EXPECT_EQ(peer_credentials(theirs).uid, ::geteuid()) << "the number equals this process's";
    EXPECT_EQ(user_of_peer(theirs), PeerUser::other);
    const auto ours = connect_to(name, std::chrono::seconds(1));
    EXPECT_EQ(user_of_peer(*ours), PeerUser::same);
    EXPECT_EQ(user_of_peer(accept_connection(*listener)), PeerUser::same);
    turn->set(3);
  });
  ASSERT_TRUE(turn->reaches(1));
  in_child([&] {
    become_stranger();
    const auto socket = connect_to(name, std::chrono::seconds(1));
    turn->set(2);
    ASSERT_TRUE(turn->reaches(3));
  });
  EXPECT_EQ(victim.wait(), 0);
}

// A manager inherits its socket from a process that may have ended since.
TEST_F(Unmapped, ListenerOnInheritedSocketIsIdentified) {
  const std::string name = object_name(fresh_session());
  in_child([&] {
    become_nobody();
    const auto listener = bind_to(name);
    in_child([&] { listen_as_this_process(*listener); });
    EXPECT_EQ(user_of_peer(*connect_to(name, std::chrono::seconds(1))), PeerUser::ended);
    listen_as_this_process(*listener);
    EXPECT_EQ(user_of_peer(*connect_to(name, std::chrono::seconds(1))), PeerUser::same);
  });
}

TEST_F(Unmapped, StartingManagerIsWaitedFor) {
  const SessionId id = fresh_session();
  in_child([&] {
    become_nobody();
    const auto listener = bind_to(object_name(id));
    in_child([&] { listen_as_this_process(*listener); });
    Child manager([&] {
      ::usleep(100'000);
      listen_as_this_process(*listener);
      ::pause();
    });
    EXPECT_TRUE(Connection::open(id, ""));
    manager.kill_and_reap();
    try {
      static_cast<void>(Connection::open(id, ""));
      ADD_FAILURE() << "no process listens";
    } catch (const SessionError& error) {
      EXPECT_NE(std::string(error.what()).find("may be another user's"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace shmtensor
