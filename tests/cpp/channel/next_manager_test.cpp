// A process that uses a channel is killed, and the manager while it repairs that.
#include <gtest/gtest.h>

#include "queue/owner_lock.hpp"
#include "support/broadcast_user.hpp"
#include "support/queue_user.hpp"
#include "support/shared.hpp"

#if defined(SHMTENSOR_FAULT_POINTS)

namespace shmtensor {
namespace {

using testing::BroadcastUser;
using testing::Child;
using testing::Letter;
using testing::QueueUser;
using testing::Shared;
using testing::Turn;

using QueueOfDead = testing::QueueTest;

// A process with both locks is killed, and the manager after it has repaired that.
TEST_F(QueueOfDead, IsRepairedByTheNextManager) {
  user_->make(0);
  restart_server("manager.before_release");
  const Shared<Turn> ready;
  for (std::uint64_t i = 0; i < 400; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  Child doomed([&, passed = user_->pass()] {
    QueueUser user(id_);
    user.open(passed);
    // A queue of its own with two rings, which have to be drained after the death.
    QueueUser other(id_);
    other.make(0);
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(other.put(i, true), Attempt::done);
    ASSERT_TRUE(OwnerLock(user.header().tail.lock).try_lock(user.session().slot()));
    ASSERT_TRUE(OwnerLock(user.header().head.lock).try_lock(user.session().slot()));
    ready->set(1);
    ::pause();
  });
  ASSERT_TRUE(ready->reaches(1));
  static_cast<void>(used());  // all arenas are open here, so they survive the manager
  doomed.kill_and_reap();
  EXPECT_EQ(server_->wait(), -SIGKILL) << "the point was not reached";
  restart_server(nullptr);
  for (std::uint64_t i = 0; i < 400; ++i) {
    Letter letter;
    ASSERT_EQ(user_->take(letter), Attempt::done);
    EXPECT_EQ(letter.number, i);
  }
  ASSERT_EQ(user_->put(1, true), Attempt::done);
  EXPECT_TRUE(nothing_is_left());
}

using BroadcastOfDead = testing::BroadcastTest;

// A process with the lock, and the slowest reader, is killed, and the manager after it has repaired
// that.
TEST_F(BroadcastOfDead, IsRepairedByTheNextManager) {
  user_->make(20);
  restart_server("manager.before_release");
  const Shared<Turn> ready;
  const auto reader = user_->reader();
  Child doomed([&, passed = user_->pass()] {
    BroadcastUser user(id_);
    user.open(passed);
    const auto slow = user.reader();
    // A broadcast of its own, which has to be drained after the death.
    BroadcastUser other(id_);
    other.make(100);
    const auto others = other.reader();
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_EQ(other.put(i, true), Attempt::done);
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(user.put(i, true), Attempt::done);
    ASSERT_TRUE(OwnerLock(user.header().tail.lock).try_lock(user.session().slot()));
    ready->set(1);
    ::pause();
  });
  ASSERT_TRUE(ready->reaches(1));
  static_cast<void>(used());  // all arenas are open here, so they survive the manager
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(user_->next(*reader), i);
  doomed.kill_and_reap();
  EXPECT_EQ(server_->wait(), -SIGKILL) << "the point was not reached";
  restart_server(nullptr);
  for (std::uint64_t i = 5; i < 10; ++i) EXPECT_EQ(user_->next(*reader), i);
  EXPECT_EQ(user_->broadcast().readers(), 1u);
  ASSERT_EQ(user_->put(1, true), Attempt::done);
  EXPECT_EQ(user_->next(*reader), 1u);
  EXPECT_TRUE(stay(1));
  reader->leave();
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace shmtensor

#endif
