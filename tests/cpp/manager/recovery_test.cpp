// Recovery of a session without its manager.
#include "manager/recovery.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::kSmall;
using testing::Shared;
using testing::Turn;

class RecoveryTest : public ::testing::Test {
 protected:
  ~RecoveryTest() override {
    for (const std::string& name : list_shm(testing::run_prefix())) unlink_shm(name);
  }
  [[nodiscard]] std::unique_ptr<Segment> make(ArenaNumber number, Strategy strategy) const {
    return Segment::create(id_, number, 0, 1, strategy, kSmall);
  }
  /// An arena of a dead process, and its name.
  std::string leave_a_name(ArenaNumber number = 1) const {
    testing::in_child([&] { static_cast<void>(make(number, Strategy::file_system)); });
    return arena_name(id_, number);
  }
  /// Sweeps until the session has no name. A sweep skips a session that another one is checking or
  /// removing.
  void expect_removal() const {
    EXPECT_TRUE(eventually([&] {
      static_cast<void>(sweep_names(false));
      return !exists(object_name(id_) + "-");
    }));
  }
  /// Sweeps, which leaves the name of a dead process. A manager that starts in a namespace of
  /// another test at the same time sees neither processes nor sockets of this one.
  void expect_kept(ArenaNumber number = 1) const {
    EXPECT_TRUE(eventually([&] {
      const std::string name = leave_a_name(number);
      static_cast<void>(sweep_names(false));
      return exists(name) && unlink_shm(name);
    }));
  }

  [[nodiscard]] static bool exists(const std::string& name) { return !list_shm(name).empty(); }
  [[nodiscard]] static bool contains(const std::vector<std::string>& names,
                                     const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const SessionId id_ = testing::fresh_session();
};

TEST_F(RecoveryTest, MemoryIsFoundInProcessThatMapsIt) {
  EXPECT_EQ(recover_session(id_), nullptr);
  Shared<Turn> turn;
  Child keeper([&] {
    const auto memory = SessionMemory::create(id_);
    memory->header().deaths.store(77);
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  const auto memory = recover_session(id_);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->header().deaths.load(), 77u);
  keeper.kill_and_reap();
}

TEST_F(RecoveryTest, FileWithOnlyTheNameIsSkipped) {
  const Fd impostor = create_memfd(SessionMemory::file_name(id_));
  EXPECT_EQ(recover_session(id_), nullptr);
  const auto memory = SessionMemory::create(id_);
  EXPECT_NE(recover_session(id_), nullptr);
}

TEST_F(RecoveryTest, EveryArenaIsFoundOnce) {
  const auto memory = SessionMemory::create(id_);  // not an arena, but with a similar name
  const auto one = make(1, Strategy::file_descriptor);
  const auto two = make(2, Strategy::file_system);
  const auto again = Segment::open(id_, 1, (*one->file()).duplicate());
  const Fd impostor = create_memfd(arena_name(id_, 3));
  const Fd odd = create_memfd(arena_name(id_, 4) + "x");
  static_cast<void>(create_shm(arena_name(id_, 5)));
  static_cast<void>(create_shm(object_name(id_) + "-"));
  const auto other =
      Segment::create(testing::fresh_session(), 6, 0, 1, Strategy::file_descriptor, kSmall);
  const auto [found, all] = recover_arenas(id_);
  EXPECT_TRUE(all);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->identity(), one->identity());
  EXPECT_EQ(found[1]->identity(), two->identity());
}

// A sweep covers all sessions of the user, so other managers may be sweeping simultaneously.

TEST_F(RecoveryTest, NamesOfDeadSessionAreRemoved) {
  const std::string name = leave_a_name();
  leave_a_name(2);
  expect_removal();
  EXPECT_FALSE(contains(sweep_names(false), name));
}

TEST_F(RecoveryTest, DryRunOnlyReports) {
  const std::string name = arena_name(id_, 1);
  EXPECT_TRUE(eventually([&] {
    if (!exists(name)) leave_a_name();
    return contains(sweep_names(true), name);
  }));
  expect_removal();
}

TEST_F(RecoveryTest, MappedNamesAreKept) {
  const auto segment = make(1, Strategy::file_system);
  EXPECT_FALSE(contains(sweep_names(true), arena_name(id_, 1)));
  static_cast<void>(sweep_names(false));
  EXPECT_TRUE(exists(arena_name(id_, 1)));
  expect_kept(2);  // its session is alive
}

// The manager was killed, and the only member left has not read a dead member's message yet.
TEST_F(RecoveryTest, NamesOfSessionWithMemberAreKept) {
  auto memory = SessionMemory::create(id_);
  expect_kept();
  memory.reset();
  expect_removal();
}

// Regression: a sweep that searched all processes while it held the session's address blocked other
// sweeps: their names remained. So it holds the address only during the removal.
TEST_F(RecoveryTest, ConcurrentSweepDoesNotInterfere) {
  Shared<Turn> turn;
  const Child other([&] {
    turn->set(1);
    while (turn->get() < 2) static_cast<void>(sweep_names(false));
  });
  ASSERT_TRUE(turn->reaches(1));
  constexpr int kNames = 30;
  const auto count_left = [&] {
    int left = 0;
    for (ArenaNumber number = 1; number <= kNames; ++number) {
      static_cast<void>(create_shm(arena_name(id_, number)));
      static_cast<void>(sweep_names(false));
      left += exists(arena_name(id_, number)) ? 1 : 0;
      unlink_shm(arena_name(id_, number));
    }
    return left;
  };
  // Sweeps of other tests disturb it, too: most names are removed in one of several attempts.
  int left = kNames;
  for (int attempt = 0; attempt < 5 && left >= kNames / 2; ++attempt) left = count_left();
  turn->set(2);
  EXPECT_LT(left, kNames / 2);
}

// Freeing much memory takes the kernel seconds: a sweep returns the files, to be closed later.
TEST_F(RecoveryTest, MemoryOfUnlinkedNameIsFreedOnClose) {
  const std::string name = arena_name(id_, 1);
  Fd taken;
  EXPECT_TRUE(eventually([&] {
    if (!exists(name)) leave_a_name();  // a sweep of another process has removed it
    sweep_names(false, [&](Fd file) {
      const auto link =
          std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file.get()));
      if (link.string().find(name) != std::string::npos) taken = std::move(file);
    });
    return static_cast<bool>(taken);
  }));
  EXPECT_FALSE(exists(name));
  EXPECT_GT(file_usage(taken), 0u);
}

TEST_F(RecoveryTest, NamesOfSessionWithManagerAreKept) {
  const auto socket = listen_on(object_name(id_));
  expect_kept();
}

// Each connection would wait in the queue of a stopped manager, until no process can connect.
TEST_F(RecoveryTest, SweepDoesNotConnectToManagers) {
  const auto socket = listen_on(object_name(id_));
  ::fcntl(socket->get(), F_SETFL, O_NONBLOCK);
  const std::string name = leave_a_name();
  static_cast<void>(sweep_names(false));
  EXPECT_FALSE(accept_connection(*socket));
}

TEST_F(RecoveryTest, NamesCreatedInOtherNamespaceAreRemovedUnlessOpen) {
  auto segment = make(1, Strategy::file_system);
  const std::string name = arena_name(id_, 1);
  if (!shm_in_use(name)) GTEST_SKIP() << "the kernel does not support leases here";
  Fd file = open_shm(name);
  segment.reset();
  {
    const Mapping page = Mapping::of_file(file, 0, page_size(), Access::read_write);
    ++reinterpret_cast<ArenaHeader*>(page.data())->pid_namespace;
  }
  static_cast<void>(sweep_names(false));
  EXPECT_TRUE(exists(name)) << "a process, which need not be visible here, has it open";
  file.reset();
  expect_removal();
}

// Killed after the name was created, before anything was written: that page does not exist.
TEST_F(RecoveryTest, NamesOfEmptyFilesAreRemoved) {
  testing::in_child([&] {
    static_cast<void>(create_shm(arena_name(id_, 1)));
    set_file_size(create_shm(arena_name(id_, 2)), kSmall.data());
    set_file_size(create_shm(arena_name(id_, 3)), 100);
  });
  expect_removal();
}

TEST_F(RecoveryTest, NamesOfOtherUsersAreKept) {
  // The prefix alone is not a session's name.
  const std::string foreign = "other-" + object_name(id_) + "-1";
  static_cast<void>(create_shm(foreign));
  static_cast<void>(sweep_names(false));
  EXPECT_TRUE(exists(foreign));
  EXPECT_TRUE(unlink_shm(foreign));
}

}  // namespace
}  // namespace shmtensor
