#include "os/process_lock.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "os/fork_mark.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"
#include "support/wait.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Turn;

class ProcessLockTest : public ::testing::Test {
 protected:
  ProcessLockTest() { set_file_size(file_, page_size()); }

  /// A process that acquires the lock, calls `then`, and waits.
  template <typename Then>
  [[nodiscard]] auto holder(Then&& then) {
    auto child = std::make_unique<Child>([this, then] {
      const ProcessLock lock = ProcessLock::take(file_, 5);
      EXPECT_TRUE(lock);
      turn_->set(1);
      then();
      turn_->set(2);
      ::pause();
    });
    EXPECT_TRUE(turn_->reaches(2));
    return child;
  }

  const Fd file_ = create_memfd("process-lock-test");
  const Shared<Turn> turn_;
};

TEST_F(ProcessLockTest, LocksOneByteForItsLifetime) {
  EXPECT_FALSE(is_locked(file_, 5));
  {
    ProcessLock lock = ProcessLock::take(file_, 5);
    ASSERT_TRUE(lock);
    EXPECT_TRUE(is_locked(file_, 5));
    EXPECT_FALSE(is_locked(file_, 4));
    EXPECT_FALSE(is_locked(file_, 6));
    const ProcessLock moved = std::move(lock);
    EXPECT_TRUE(is_locked(file_, 5));
  }
  EXPECT_FALSE(is_locked(file_, 5));
}

TEST_F(ProcessLockTest, DeadProcessHoldsNoLock) {
  const auto child = holder([] {});
  EXPECT_TRUE(is_locked(file_, 5));
  child->kill();  // and not reaped
  EXPECT_TRUE(eventually([&] { return !is_locked(file_, 5); }));
}

TEST_F(ProcessLockTest, ProcessThatClosesDescriptorsKeepsTheLock) {
  const auto child = holder([] { ::closefrom(3); });
  EXPECT_TRUE(is_locked(file_, 5));
}

TEST_F(ProcessLockTest, ForkedChildDoesNotKeepParentsLock) {
  const Shared<Turn> grandchild;
  const auto child = holder([&] {
    const pid_t parent = ::getpid();
    if (::fork() != 0) return;
    while (::getppid() == parent) ::usleep(1000);
    grandchild->set(1);
    ::usleep(100'000);
    grandchild->set(is_locked(file_, 5) ? 2 : 3);
    ::_exit(0);
  });
  child->kill_and_reap();
  ASSERT_TRUE(grandchild->reaches(1));
  EXPECT_FALSE(is_locked(file_, 5));
  EXPECT_TRUE(grandchild->reaches(3)) << "it runs after its parent's end";
}

TEST_F(ProcessLockTest, ChildHasNothingToRelease) {
  testing::in_child([&] {
    mark_process();
    ProcessLock lock = ProcessLock::take(file_, 5);
    const auto take_own = [&] {
      const ProcessLock own = ProcessLock::take(file_, 6);  // perhaps at the same address
      lock = {};
      EXPECT_TRUE(is_locked(file_, 5));
      EXPECT_TRUE(is_locked(file_, 6));
    };
    testing::in_child([&] {
      mark_forked_child();
      take_own();
    });
    testing::in_child(take_own);  // a raw copy
    EXPECT_TRUE(is_locked(file_, 5));
    EXPECT_FALSE(is_locked(file_, 6));
  });
}

TEST_F(ProcessLockTest, ExecReleasesTheLock) {
  Child child([&] {
    const ProcessLock lock = ProcessLock::take(file_, 5);
    turn_->set(lock ? 1 : 0);
    ::execl("/bin/sleep", "sleep", "60", nullptr);
  });
  ASSERT_TRUE(turn_->reaches(1));
  EXPECT_TRUE(eventually([&] { return !is_locked(file_, 5); }));
  EXPECT_TRUE(is_alive({child.pid(), 0}));
}

TEST_F(ProcessLockTest, LockSurvivesEndOfFirstThread) {
  Child child([&] {
    std::thread([&] {
      while (!lacks_first_thread(::getpid())) ::usleep(1000);
      const ProcessLock lock = ProcessLock::take(file_, 5);
      turn_->set(lock ? 1 : 2);
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread
  });
  ASSERT_TRUE(turn_->reaches(1));
  EXPECT_TRUE(is_locked(file_, 5));
  child.kill_and_reap();
  EXPECT_TRUE(eventually([&] { return !is_locked(file_, 5); }));
}

TEST_F(ProcessLockTest, LockIsVisibleFromOtherPidNamespace) {
  if (const int code = testing::exit_of([] { return ::unshare(CLONE_NEWPID) == 0 ? 0 : 77; })) {
    GTEST_SKIP() << "no PID namespaces of one's own here (" << code << ")";
  }
  Child child([&] {
    ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
    const pid_t inner = ::fork();
    if (inner == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const ProcessLock lock = ProcessLock::take(file_, 5);
      turn_->set(lock ? 1 : 0);
      ::pause();
    }
    ASSERT_TRUE(turn_->reaches(3));
    ASSERT_EQ(::kill(inner, SIGKILL), 0);
    turn_->set(4);
    ::pause();
  });
  ASSERT_TRUE(turn_->reaches(1));
  EXPECT_TRUE(is_locked(file_, 5));
  turn_->set(3);
  ASSERT_TRUE(turn_->reaches(4));
  EXPECT_TRUE(eventually([&] { return !is_locked(file_, 5); }));
}

}  // namespace
}  // namespace shmtensor
