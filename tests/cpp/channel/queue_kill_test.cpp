// Processes that use a queue are killed at any instant, and at each fault point.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "queue/owner_lock.hpp"
#include "support/queue_kills.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Letter;

class QueueStorm : public testing::QueueKills,
                   public ::testing::WithParamInterface<std::uint64_t> {};

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

struct Point {
  const char* name;
  bool producer;
};

class QueueFaults : public testing::QueueKills, public ::testing::WithParamInterface<Point> {
 protected:
  /// A process that is killed at its n-th pass of the point.
  [[nodiscard]] std::unique_ptr<Child> start_doomed(int nth) {
    return std::make_unique<Child>([this, nth, passed = pass()] {
      const std::string order = std::string(GetParam().name) + ":" + std::to_string(nth);
      return GetParam().producer ? produce(passed, order) : consume(passed, order);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(
    Points, QueueFaults,
    ::testing::Values(Point{"queue.put_locked", true}, Point{"queue.put_unlock", true},
                      Point{"queue.put_notify", true}, Point{"queue.put_count", true},
                      Point{"queue.ring_count", true}, Point{"send.before_ticket", true},
                      Point{"send.group_ready", true}, Point{"send.before_publish", true},
                      Point{"send.recorded", true}, Point{"send.before_epoch", true},
                      Point{"send.before_message", true}, Point{"queue.take_locked", false},
                      Point{"queue.take_unlock", false}, Point{"queue.take_notify", false},
                      Point{"queue.take_count", false}, Point{"queue.ring_cancel", false},
                      Point{"queue.ring_retire", false}, Point{"hold.before_claim", false},
                      Point{"hold.after_claim", false}, Point{"queue.announced", false}),
    [](const auto& point) {
      std::string name = point.param.name;
      std::ranges::replace(name, '.', '_');
      return name;
    });

// The other end is used only afterwards, so that the queue grows, and then shrinks.
TEST_P(QueueFaults, LoseNothingButWhatTheDeadHad) {
  constexpr std::uint64_t kBefore = 900;  // in four rings
  for (const int nth : {1, 2}) {
    user_->make(0);
    const bool producer = GetParam().producer;
    if (!producer) {
      for (std::uint64_t i = 0; i < kBefore; ++i) {
        const std::uint64_t number = ledger_->next.fetch_add(1);
        ASSERT_EQ(user_->put(number, number % 2 == 0), Attempt::done);
        ledger_->put[number].store(1);
      }
    }
    const auto doomed = start_doomed(nth);
    EXPECT_EQ(doomed->wait(), -SIGKILL) << "the point was not reached";
    // Both ends can be used again, by others.
    const std::uint64_t number = ledger_->next.fetch_add(1);
    ASSERT_EQ(user_->put(number, true), Attempt::done);
    ledger_->put[number].store(1);
    settle(producer ? 0 : static_cast<std::uint64_t>(nth));
  }
}

class ManagerFaults : public testing::QueueKills,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  void restart_server(const char* order) {
    server_.reset();
    if (order != nullptr) ::setenv("SHMTENSOR_FAULT", order, 1);
    server_ = std::make_unique<testing::ServerProcess>(id_);
    ::unsetenv("SHMTENSOR_FAULT");
    static_cast<void>(user_->session().manager().statistics());
  }
};

INSTANTIATE_TEST_SUITE_P(Points, ManagerFaults,
                         ::testing::Values("manager.queue_repaired", "manager.drained",
                                           "manager.drained:2", "manager.drained:4",
                                           "manager.before_release"));

// A process with both locks is killed, and the manager while it repairs that, or drains the queue.
TEST_P(ManagerFaults, AreRepairedByTheNextManager) {
  user_->make(0);
  restart_server(GetParam());
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
  const bool leaves =
      std::string(GetParam()).ends_with(":4");  // the two blocks below, and two here
  if (leaves) user_->leave();
  EXPECT_EQ(server_->wait(), -SIGKILL) << "the point was not reached";
  restart_server(nullptr);
  if (leaves) {
    user_->make(0);
    EXPECT_TRUE(nothing_is_left());
    return;
  }
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
