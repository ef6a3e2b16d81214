// Producers and consumers of a queue that are killed, and what must be true afterwards.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "support/queue_user.hpp"
#include "support/shared.hpp"

namespace shmtensor::testing {

/// What the processes did, message by message.
struct Ledger {
  static constexpr std::uint64_t kMost = 1u << 20;

  std::atomic<std::uint64_t> next{0};  ///< number of the next message
  std::array<std::atomic<std::uint8_t>, kMost> put;
  std::array<std::atomic<std::uint8_t>, kMost> taken;
  std::atomic<std::uint64_t> passes{0};
};

/// The manager of the session is a server in a child process.
class QueueKills : public QueueTest {
 protected:
  void produce(const Passed& passed) {
    QueueUser user(id_);
    user.open(passed);
    for (;;) {
      const std::uint64_t number = ledger_->next.fetch_add(1);
      if (number >= Ledger::kMost || user.put(number, number % 2 == 0) != Attempt::done) return;
      ledger_->put[number].store(1);
      ledger_->passes.fetch_add(1);
    }
  }
  void consume(const Passed& passed) {
    QueueUser user(id_);
    user.open(passed);
    Letter letter;
    while (user.take(letter) == Attempt::done) {
      ledger_->taken.at(letter.number).fetch_add(1);
      ledger_->passes.fetch_add(1);
    }
  }
  [[nodiscard]] std::unique_ptr<Child> start(bool producer) {
    return std::make_unique<Child>(
        [this, producer, passed = pass()] { return producer ? produce(passed) : consume(passed); });
  }
  /// Two producers and two consumers, one of which is killed and replaced again and again. Returns
  /// how many consumers were killed.
  [[nodiscard]] std::uint64_t kill_at_random(std::uint32_t seed) {
    constexpr int kKills = 40;
    static_assert(kKills + 5 <= kMostWaits, "its processes must outlive its waits");
    std::mt19937 random(seed);
    std::array<std::unique_ptr<Child>, 4> children;  // the even ones produce
    for (std::size_t i = 0; i < children.size(); ++i) children.at(i) = start(i % 2 == 0);
    std::uint64_t consumers = 2;
    for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
      expect_progress(50);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      const std::size_t which = random() % children.size();
      children.at(which)->kill_and_reap();
      consumers += which % 2;
      children.at(which) = start(which % 2 == 0);
    }
    expect_progress(50);
    for (const auto& child : children) child->kill_and_reap();
    return consumers;
  }
  Passed pass() {
    passed_.push_back(user_->pass());
    return passed_.back();
  }
  /// Takes what is left, then compares: a message that was put was taken once, unless the process
  /// that took it was killed.
  void settle(std::uint64_t killed_consumers) {
    // Until the manager has noticed the deaths, a lock may be that of a dead process.
    EXPECT_TRUE(eventually([&] {
      Attempt result{};
      do {
        Letter letter;
        result = user_->take(letter, std::chrono::seconds(user_->queue().size() == 0 ? 0 : 1));
        if (result == Attempt::done) ledger_->taken.at(letter.number).fetch_add(1);
      } while (result == Attempt::done);
      return result == Attempt::empty;
    }));
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < std::min(ledger_->next.load(), Ledger::kMost); ++i) {
      const int taken = ledger_->taken[i].load();
      EXPECT_LE(taken, 1) << i;
      if (ledger_->put[i].load() != 0 && taken == 0) ++lost;
    }
    EXPECT_LE(lost, killed_consumers);
    EXPECT_EQ(user_->queue().size(), 0u);
    // A process may have been killed before it opened the queue.
    for (const Passed& one : passed_) {
      user_->block().arena->cancel_send(one.sent.block, one.sent.generation, one.sent.ticket);
    }
    passed_.clear();
    EXPECT_TRUE(nothing_is_left());
  }
  void expect_progress(std::uint64_t more) {
    const std::uint64_t before = ledger_->passes.load();
    EXPECT_TRUE(eventually([&] { return ledger_->passes.load() >= before + more; }));
  }

  const Shared<Ledger> ledger_;
  std::vector<Passed> passed_;
};

}  // namespace shmtensor::testing
