#include "os/process.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/procfs.hpp"
#include "support/child.hpp"
#include "support/names.hpp"
#include "support/scarce_heap.hpp"
#include "support/shared.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::exit_of;

// Waits until the process has ended, and leaves it a zombie.
void wait_for_zombie(pid_t pid) {
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
}

TEST(Process, IsIdentifiedByPidAndStartTime) {
  const ProcessIdentity self = this_process();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_NE(self.start_time, 0u);
  EXPECT_EQ(start_time_of(self.pid), self.start_time);
  EXPECT_TRUE(is_alive(self));
  EXPECT_EQ(exit_of([&] { return this_process() == self ? 1 : 0; }), 0);
}

// Regression: an exhausted heap ended the process that searched for a session's members.
TEST(Process, ExhaustedHeapIsAnError) {
  const std::string name = "shmtensor-maps-test";
  const testing::ScarceHeap heap(0);
  EXPECT_THROW(static_cast<void>(in_other_network(0x7ffffff0)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(maps_file(0x7ffffff0, name)), std::bad_alloc);
}

TEST(Process, OtherStartTimeMeansOtherProcess) {
  ProcessIdentity other = this_process();
  ++other.start_time;
  EXPECT_FALSE(is_alive(other));
  EXPECT_FALSE(open_pidfd(other));
}

TEST(Process, WithoutStartTimePidDecides) {
  EXPECT_TRUE(is_alive({::getpid(), 0}));
  EXPECT_TRUE(open_pidfd({::getpid(), 0}));
}

TEST(Process, NullProcessIsNotAlive) {
  EXPECT_FALSE(is_alive({}));
  EXPECT_FALSE(is_alive({-1, 0}));
  EXPECT_EQ(start_time_of(0), 0u);
}

// A program whose main function ends with pthread_exit: /proc shows a zombie without memory.
TEST(Process, IsAliveAfterEndOfFirstThread) {
  const std::string name = testing::run_prefix() + "-of-two-threads";
  Child child([&] {
    const Fd file = create_memfd(name);
    set_file_size(file, page_size());
    const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_write);
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // ends only this thread, without unwinding
  });
  const ProcessIdentity identity{child.pid(), start_time_of(child.pid())};
  const auto shows_nothing = [&] {
    std::ifstream maps("/proc/" + std::to_string(child.pid()) + "/maps");
    return maps.peek() == std::ifstream::traits_type::eof();
  };
  ASSERT_TRUE(eventually(shows_nothing));
  EXPECT_TRUE(is_alive(identity));
  EXPECT_EQ(maps_file(child.pid(), name), true);
  EXPECT_EQ(maps_file(child.pid(), name + "x"), false);
  EXPECT_EQ(open_files(child.pid(), "/memfd:" + name).size(), 1u);
  child.kill();
  wait_for_zombie(child.pid());
  EXPECT_FALSE(is_alive(identity));
  EXPECT_EQ(maps_file(child.pid(), name), false);
  EXPECT_TRUE(open_files(child.pid(), "/memfd:").empty());
}

// As a process that is killed, whose threads end one after another.
TEST(Process, EndsSoonIfItsLastThreadDoes) {
  testing::Shared<testing::Turn> turn;
  Child child([&] {
    std::thread([&] {
      if (turn->reaches(1)) ::usleep(100'000);
      ::_exit(0);
    }).detach();
    ::syscall(SYS_exit, 0);
  });
  const ProcessIdentity identity{child.pid(), start_time_of(child.pid())};
  ASSERT_TRUE(eventually([&] { return lacks_first_thread(child.pid()); }));
  EXPECT_FALSE(ends_soon(identity, 0)) << "the other thread runs on";
  turn->set(1);
  EXPECT_TRUE(is_alive(identity));
  EXPECT_TRUE(eventually([&] { return ends_soon(identity, 0); }));
  EXPECT_FALSE(is_alive(identity));
}

TEST(Process, EndsSoonIfItBeginsToEndInTime) {
  EXPECT_FALSE(ends_soon(this_process(), 0));
  EXPECT_FALSE(ends_soon(this_process(), 5));
  EXPECT_TRUE(ends_soon({0, 0}, 0));
  Child child([] { ::usleep(100'000); });
  EXPECT_TRUE(ends_soon({child.pid(), start_time_of(child.pid())}, 60'000));
}

TEST(Process, ZombieCountsAsDead) {
  Child child([] {});
  const ProcessIdentity identity{child.pid(), 0};
  wait_for_zombie(child.pid());
  EXPECT_EQ(::kill(child.pid(), 0), 0) << "the process id still exists";
  EXPECT_FALSE(is_alive(identity));
  EXPECT_NE(start_time_of(child.pid()), 0u);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(is_alive(identity));
  EXPECT_EQ(start_time_of(identity.pid), 0u);
}

TEST(Process, PidfdReportsExitBeforeReap) {
  Child child([] { ::pause(); });
  const Fd pidfd = open_pidfd({child.pid(), start_time_of(child.pid())});
  ASSERT_TRUE(pidfd);
  EXPECT_FALSE(has_ended(pidfd));
  child.kill();
  EXPECT_TRUE(eventually([&] { return has_ended(pidfd); }));
}

TEST(Process, ExitedProcessHasNoPidfd) {
  pid_t pid = 0;
  {
    Child child([] {});
    pid = child.pid();
    EXPECT_EQ(child.wait(), 0);
  }
  EXPECT_FALSE(open_pidfd({pid, 1}));
}

TEST(Process, NameMayHoldParentheses) {
  testing::Shared<testing::Turn> turn;
  Child child([&] {
    ::prctl(PR_SET_NAME, "a) R 1 2 (b");
    turn->set(1);
    ::pause();
  });
  const std::uint64_t before = start_time_of(child.pid());
  ASSERT_TRUE(turn->reaches(1));
  EXPECT_EQ(start_time_of(child.pid()), before);
  EXPECT_TRUE(is_alive({child.pid(), before}));
}

TEST(Process, DetectsMappedFile) {
  const Fd file = create_memfd("shmtensor-maps-test");
  EXPECT_EQ(maps_file(::getpid(), "shmtensor-maps-test"), false) << "open, but not mapped";
  {
    const Mapping mapping = Mapping::of_file(file, 0, page_size(), Access::read_only);
    EXPECT_EQ(maps_file(::getpid(), "shmtensor-maps-test"), true);
  }
  EXPECT_EQ(maps_file(::getpid(), "shmtensor-maps-test"), false);
  EXPECT_EQ(maps_file(0x7ffffff0, "anything"), false) << "the process does not exist";
  Child child([] {});
  wait_for_zombie(child.pid());
  EXPECT_EQ(maps_file(child.pid(), ""), false) << "a zombie has no memory";
}

TEST(Process, OwnProcessesContainThisProcessAndItsChildren) {
  Child child([] { ::pause(); });
  const auto pids = own_processes();
  EXPECT_NE(std::find(pids.begin(), pids.end(), ::getpid()), pids.end());
  EXPECT_NE(std::find(pids.begin(), pids.end(), child.pid()), pids.end());
}

TEST(Process, OpenFilesOfOtherProcessCanBeReopened) {
  const std::string name = "shmtensor-open-files-test";
  testing::Shared<testing::Turn> turn;
  Child child([&] {
    const Fd file = create_memfd(name);
    turn->set(1);
    ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  const auto files = open_files(child.pid(), "/memfd:" + name);
  ASSERT_EQ(files.size(), 1u);
  const Fd file = open_path(files[0].path);
  ASSERT_TRUE(file);
  child.kill_and_reap();
  EXPECT_TRUE(file.identity() == file.duplicate().identity());
  EXPECT_FALSE(open_path(files[0].path));
  EXPECT_TRUE(open_files(0x7ffffff0, "").empty());
}

TEST(Process, NamespaceIsInheritedByChildren) {
  const std::uint64_t here = pid_namespace();
  EXPECT_NE(here, 0u);
  EXPECT_EQ(exit_of([&] { return pid_namespace() == here ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace shmtensor
