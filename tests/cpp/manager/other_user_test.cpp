// Another user of the machine cannot affect a session. Needs the right to change the user.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "support/server.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::in_child;
using testing::kSmall;
using testing::Shared;
using testing::Turn;

constexpr uid_t kOther = 65'534;

/// Runs a body in a child process of another user.
template <typename Body>
void as_another_user(Body&& body) {
  in_child([&] {
    ASSERT_EQ(::setgid(kOther), 0);
    ASSERT_EQ(::setuid(kOther), 0);
    body();
  });
}

class OtherUser : public testing::ServerTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

TEST_F(OtherUser, ConnectionIsRejected) {
  const Joined member = join();
  as_another_user([&] {
    Client client(id_);
    EXPECT_TRUE(client.is_hung_up_on(Join::existing));
  });
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(OtherUser, AddressHijackIsDetected) {
  const SessionId id = testing::fresh_session();
  Shared<Turn> turn;
  Child squatter([&] {
    ASSERT_EQ(::setuid(kOther), 0);
    const auto listener = listen_on(object_name(id));
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  try {
    static_cast<void>(Connection::open(id, "/bin/false"));
    ADD_FAILURE() << "a message was sent to it";
  } catch (const SessionError& error) {
    EXPECT_NE(std::string(error.what()).find("belongs to another user"), std::string::npos);
  }
  squatter.kill_and_reap();
}

TEST_F(OtherUser, CannotOpenNamesOrDescriptors) {
  const auto named = Segment::create(id_, 1, 0, 1, Strategy::file_system, kSmall);
  const auto memfd = Segment::create(id_, 2, 0, 1, Strategy::file_descriptor, kSmall);
  const pid_t owner = ::getpid();
  as_another_user([&] {
    try {
      static_cast<void>(open_shm(arena_name(id_, 1)));
      ADD_FAILURE() << "a name was opened";
    } catch (const OsError& error) {
      EXPECT_EQ(error.code(), EACCES);
    }
    EXPECT_TRUE(open_files(owner, "/memfd:").empty());
  });
  EXPECT_TRUE(unlink_shm(arena_name(id_, 1)));
}

}  // namespace
}  // namespace shmtensor
