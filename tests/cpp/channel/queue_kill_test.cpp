// Processes that use a queue, and their manager, are killed.
#include <gtest/gtest.h>

#include <vector>

#include "queue/owner_lock.hpp"
#include "support/queue_kills.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Letter;
using testing::QueueKills;

class QueueStorm : public QueueKills, public ::testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Limits, QueueStorm, ::testing::Values(3, 60, 1000));

TEST_P(QueueStorm, LosesNothingButWhatTheDeadHad) {
  user_->make(GetParam());
  settle(kill_at_random(17 + static_cast<std::uint32_t>(GetParam())));
}

TEST_P(QueueStorm, SurvivesKillsOfTheManager) {
  user_->make(GetParam());
  std::mt19937 random(23);
  std::array<std::unique_ptr<Child>, 4> children;
  for (std::size_t i = 0; i < children.size(); ++i) children.at(i) = start(i % 2 == 0);
  std::uint64_t consumers = 0;
  for (int kill = 0; kill < 8 && !HasFailure(); ++kill) {
    expect_progress(50);
    const std::size_t which = random() % children.size();
    // These sessions cannot start a manager, so they run only while there is one.
    // All arenas are open here: with the manager, those of the other process would be lost.
    for (const auto& child : children) child->kill(SIGSTOP);
    static_cast<void>(used());
    children.at(which)->kill();
    if (kill % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    server_->kill();
    children.at(which)->kill_and_reap();
    consumers += which % 2;
    server_ = std::make_unique<testing::ServerProcess>(id_);
    static_cast<void>(user_->session().manager().statistics());
    for (const auto& child : children) child->kill(SIGCONT);
    children.at(which) = start(which % 2 == 0);
  }
  expect_progress(50);
  for (const auto& child : children) child->kill_and_reap();
  settle(consumers + 2);
}

#if defined(SHMTENSOR_FAULT_POINTS)

// A process with both locks is killed, and the manager after it has repaired that.
TEST_F(QueueKills, AreRepairedByTheNextManager) {
  user_->make(0);
  restart_server("manager.before_release");
  for (std::uint64_t i = 0; i < 400; ++i) ASSERT_EQ(user_->put(i, true), Attempt::done);
  Child doomed([&, passed = user_->pass()] {
    testing::QueueUser user(id_);
    user.open(passed);
    // A queue of its own with two rings, which have to be drained after the death.
    testing::QueueUser other(id_);
    other.make(0);
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(other.put(i, true), Attempt::done);
    ASSERT_TRUE(OwnerLock(user.header().tail.lock).try_lock(user.session().slot()));
    ASSERT_TRUE(OwnerLock(user.header().head.lock).try_lock(user.session().slot()));
    ledger_->passes.store(1);
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return ledger_->passes.load() == 1; }));
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

#endif

}  // namespace
}  // namespace shmtensor
