// Processes that use a broadcast, and their manager, are killed.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "queue/owner_lock.hpp"
#include "support/broadcast_user.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::BroadcastUser;
using testing::Child;
using testing::eventually;
using testing::Letter;
using testing::Passed;
using testing::Shared;

/// What the writers did, and a reader that is not killed.
struct Readings {
  static constexpr std::uint64_t kMost = 1u << 20;

  std::atomic<std::uint64_t> next{0};  ///< number of the next message
  std::array<std::atomic<std::uint8_t>, kMost> put;
  std::array<std::atomic<std::uint8_t>, kMost> taken;
  std::atomic<std::uint64_t> passes{0};
  std::atomic<std::uint64_t> wrong{0};
};

enum class Role : std::uint8_t { writer, reader };

/// The manager of the session is a server in a child process.
class BroadcastKills : public testing::BroadcastTest {
 protected:
  [[nodiscard]] std::unique_ptr<Child> start(Role role) {
    return std::make_unique<Child>([this, role, passed = pass()] {
      BroadcastUser user(id_);
      user.open(passed);
      return role == Role::writer ? write(user) : read(user);
    });
  }
  /// A process that notes what it reads.
  [[nodiscard]] std::unique_ptr<Child> start_witness() {
    auto witness = std::make_unique<Child>([this, passed = pass()] {
      BroadcastUser user(id_);
      user.open(passed);
      const auto reader = user.reader();
      Letter letter;
      while (user.take(*reader, letter) == Attempt::done) {
        ledger_->taken.at(letter.number).fetch_add(1);
        ledger_->passes.fetch_add(1);
      }
    });
    EXPECT_TRUE(eventually([&] { return user_->broadcast().readers() != 0; }));
    return witness;
  }
  void expect_progress(std::uint64_t more) {
    const std::uint64_t before = ledger_->passes.load();
    EXPECT_TRUE(eventually([&] { return ledger_->passes.load() >= before + more; }));
  }
  /// All others have been killed: the witness reads what is left, and nothing stays allocated.
  void settle(Child& witness) {
    // Until the manager has noticed the deaths, the lock may be that of a dead process.
    EXPECT_TRUE(eventually(
        [&] { return user_->broadcast().readers() == 1 && user_->broadcast().lag() == 0; }));
    EXPECT_TRUE(eventually([&] {
      return user_->put(ledger_->next.fetch_add(1), true, std::chrono::seconds(1)) == Attempt::done;
    }));
    user_->broadcast().shut_down();
    EXPECT_EQ(witness.wait(), 0);
    EXPECT_EQ(ledger_->wrong.load(), 0u);
    for (std::uint64_t i = 0; i < std::min(ledger_->next.load(), Readings::kMost); ++i) {
      const int taken = ledger_->taken[i].load();
      EXPECT_LE(taken, 1) << i;
      EXPECT_GE(taken, int{ledger_->put[i].load()}) << i;
    }
    cancel_passes();
    EXPECT_TRUE(stay(1));
    EXPECT_TRUE(nothing_is_left());
  }
  /// A process may have been killed before it opened the broadcast.
  void cancel_passes() {
    for (const Passed& one : passed_) {
      user_->block().arena->cancel_send(one.sent.block, one.sent.generation, one.sent.ticket);
    }
    passed_.clear();
  }
  Passed pass() {
    passed_.push_back(user_->pass());
    return passed_.back();
  }

  const Shared<Readings> ledger_;
  std::vector<Passed> passed_;

 private:
  void write(BroadcastUser& user) {
    for (;;) {
      const std::uint64_t number = ledger_->next.fetch_add(1);
      if (number >= Readings::kMost || user.put(number, number % 2 == 0) != Attempt::done) return;
      ledger_->put[number].store(1);
    }
  }
  /// Reads a few messages at a time, and joins again.
  void read(BroadcastUser& user) {
    std::mt19937 random(static_cast<std::uint32_t>(::getpid()));
    for (std::uint64_t before = ~std::uint64_t{0};;) {
      const auto reader = user.reader();
      for (auto left = random() % 40; left != 0; --left) {
        Letter letter;
        if (user.take(*reader, letter) != Attempt::done) return;
        if (letter.number == before) ledger_->wrong.fetch_add(1);
        before = letter.number;
      }
    }
  }
};

class BroadcastStorm : public BroadcastKills,
                       public ::testing::WithParamInterface<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Limits, BroadcastStorm, ::testing::Values(1, 3, 100));

TEST_P(BroadcastStorm, LosesNothing) {
  constexpr int kKills = 40;
  static_assert(kKills + 5 <= testing::kMostWaits, "its processes must outlive its waits");
  user_->make(GetParam());
  std::mt19937 random(17 + static_cast<std::uint32_t>(GetParam()));
  const auto witness = start_witness();
  const auto role = [](std::size_t which) { return which < 2 ? Role::writer : Role::reader; };
  std::array<std::unique_ptr<Child>, 4> children;
  for (std::size_t i = 0; i < children.size(); ++i) children.at(i) = start(role(i));
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    expect_progress(50);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const std::size_t which = random() % children.size();
    children.at(which)->kill_and_reap();
    children.at(which) = start(role(which));
  }
  expect_progress(50);
  for (const auto& child : children) child->kill_and_reap();
  settle(*witness);
}

TEST_P(BroadcastStorm, SurvivesKillsOfTheManager) {
  user_->make(GetParam());
  std::mt19937 random(23);
  const auto witness = start_witness();
  const auto role = [](std::size_t which) { return which < 2 ? Role::writer : Role::reader; };
  std::array<std::unique_ptr<Child>, 4> children;
  for (std::size_t i = 0; i < children.size(); ++i) children.at(i) = start(role(i));
  for (int kill = 0; kill < 8 && !HasFailure(); ++kill) {
    expect_progress(50);
    const std::size_t which = random() % children.size();
    // As in QueueStorm: all arenas are open here, and no process runs without a manager.
    for (const auto& child : children) child->kill(SIGSTOP);
    witness->kill(SIGSTOP);
    static_cast<void>(used());
    children.at(which)->kill();
    if (kill % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    server_->kill();
    children.at(which)->kill_and_reap();
    server_ = std::make_unique<testing::ServerProcess>(id_);
    static_cast<void>(user_->session().manager().statistics());
    for (const auto& child : children) child->kill(SIGCONT);
    witness->kill(SIGCONT);
    children.at(which) = start(role(which));
  }
  expect_progress(50);
  for (const auto& child : children) child->kill_and_reap();
  settle(*witness);
}

#if defined(SHMTENSOR_FAULT_POINTS)

// A process with the lock, and the slowest reader, is killed, and the manager after it has repaired
// that.
TEST_F(BroadcastKills, AreRepairedByTheNextManager) {
  user_->make(20);
  restart_server("manager.before_release");
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
    ledger_->passes.store(1);
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return ledger_->passes.load() == 1; }));
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

#endif

}  // namespace
}  // namespace shmtensor
