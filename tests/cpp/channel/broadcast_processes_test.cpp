// A broadcast whose readers are processes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "support/broadcast_user.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using namespace std::chrono_literals;
using testing::BroadcastUser;
using testing::Child;
using testing::eventually;
using testing::Letter;
using testing::Shared;

struct Counts {
  std::array<std::atomic<std::uint64_t>, 8> taken;
  std::array<std::atomic<std::uint64_t>, 8> missed;
  std::atomic<std::uint64_t> wrong;
};

class BroadcastOfProcesses : public testing::BroadcastTest,
                             public ::testing::WithParamInterface<std::size_t> {
 protected:
  /// A process that reads to the end.
  [[nodiscard]] std::unique_ptr<Child> start(std::size_t which) {
    return std::make_unique<Child>([this, which, passed = user_->pass()] {
      BroadcastUser user(id_);
      user.open(passed);
      const auto reader = user.reader();
      std::uint64_t before = 0;
      for (;;) {
        Letter letter;
        const Attempt result = user.take(*reader, letter);
        if (result == Attempt::shut_down) break;
        ASSERT_EQ(result, Attempt::done);
        if (letter.number <= before) counts_->wrong.fetch_add(1);
        before = letter.number;
        counts_->taken.at(which).fetch_add(1);
      }
      counts_->missed.at(which).store(reader->missed());
    });
  }
  void wait_for(std::uint32_t readers) {
    while (user_->broadcast().readers() < readers) {
      user_->broadcast().wait_for_readers(readers, 1s);
    }
  }

  const Shared<Counts> counts_;
};

INSTANTIATE_TEST_SUITE_P(Readers, BroadcastOfProcesses, ::testing::Values(1, 2, 5, 8));

TEST_P(BroadcastOfProcesses, IsReadWhollyByEach) {
  constexpr std::uint64_t kMessages = 3000;
  for (const std::uint64_t limit : {1u, 16u}) {
    user_->make(limit);
    std::vector<std::unique_ptr<Child>> readers;
    for (std::size_t i = 0; i < GetParam(); ++i) readers.push_back(start(i));
    wait_for(static_cast<std::uint32_t>(GetParam()));
    for (std::uint64_t i = 1; i <= kMessages; ++i) {
      ASSERT_EQ(user_->put(i, i % 5 == 0), Attempt::done);
    }
    user_->broadcast().shut_down();
    for (std::size_t i = 0; i < GetParam(); ++i) {
      EXPECT_EQ(readers[i]->wait(), 0);
      EXPECT_EQ(counts_->taken.at(i).exchange(0), kMessages);
      EXPECT_EQ(counts_->missed.at(i).load(), 0u);
    }
    EXPECT_EQ(counts_->wrong.load(), 0u);
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST_P(BroadcastOfProcesses, CountsWhatEachMisses) {
  constexpr std::uint64_t kMessages = 20000;
  user_->make(3, OnFull::drop_oldest);
  std::vector<std::unique_ptr<Child>> readers;
  for (std::size_t i = 0; i < GetParam(); ++i) readers.push_back(start(i));
  wait_for(static_cast<std::uint32_t>(GetParam()));
  for (std::uint64_t i = 1; i <= kMessages; ++i) {
    ASSERT_EQ(user_->put(i, i % 2 == 0), Attempt::done);
  }
  user_->broadcast().shut_down();
  for (std::size_t i = 0; i < GetParam(); ++i) {
    EXPECT_EQ(readers[i]->wait(), 0);
    EXPECT_EQ(counts_->taken.at(i).load() + counts_->missed.at(i).load(), kMessages);
  }
  EXPECT_EQ(counts_->wrong.load(), 0u);
  EXPECT_TRUE(nothing_is_left());
}

// A reader that is stopped keeps the writer waiting, or misses messages; the others are not
// concerned. It needs no lock of the writer, so a stopped writer does not keep it from reading.
TEST_P(BroadcastOfProcesses, WaitsForAStoppedReaderUnlessItDrops) {
  for (const OnFull on_full : {OnFull::block, OnFull::drop_oldest}) {
    user_->make(3, on_full);
    const auto own = user_->reader();
    const auto stopped = start(0);
    wait_for(2);
    stopped->kill(SIGSTOP);
    std::uint64_t put = 0;
    while (put < 100 && user_->put(put + 1, true, 20ms) == Attempt::done) {
      ++put;
      EXPECT_EQ(user_->next(*own), put);
    }
    if (on_full == OnFull::drop_oldest) {
      EXPECT_EQ(put, 100u);
    } else {
      EXPECT_LE(put, 4u) << "one more than fit may have been taken before it was stopped";
    }
    stopped->kill(SIGCONT);
    user_->broadcast().shut_down();
    EXPECT_EQ(stopped->wait(), 0);
    EXPECT_EQ(counts_->taken.at(0).exchange(0) + counts_->missed.at(0).load(), put);
    own->leave();
    EXPECT_TRUE(nothing_is_left());
  }
}

}  // namespace
}  // namespace shmtensor
