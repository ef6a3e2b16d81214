// Numbers in shared memory that a peer changes while they are read.
#include <gtest/gtest.h>

#include <atomic>
#include <span>
#include <thread>

#include "base/error.hpp"
#include "os/page_reservation.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

using testing::kSmall;
using testing::Peer;

constexpr int kTurns = 1'000'000;

/// A thread that alternately writes two numbers to one place, until it is destroyed.
class Flipping {
 public:
  Flipping(std::atomic<std::uint64_t>& number, std::uint64_t other)
      : thread_([this, &number, other](const std::stop_token& end) {
          const std::uint64_t first = number.load();
          while (!end.stop_requested()) {
            number.store(other);
            pause();
            number.store(first);
            pause();
          }
        }) {
    while (!begun_.load()) std::this_thread::yield();
  }

 private:
  // Each number is stored for about as long as a read takes.
  void pause() {
    for (int i = 0; i < 20; ++i) begun_.store(true);
  }

  std::atomic<bool> begun_{false};
  std::jthread thread_;
};

class ChangingNumbers : public testing::WorldTest {
 protected:
  void expect_inside() {
    const std::byte* start = reader_->segment().data(Access::read_only, 0, 1);
    for (int turn = 0; turn < kTurns; ++turn) {
      try {
        const std::span<std::byte> bytes = reader_->bytes(block_, Access::read_only);
        ASSERT_GE(bytes.data(), start);
        const auto offset = static_cast<std::uint64_t>(bytes.data() - start);
        ASSERT_TRUE(fits(offset, bytes.size(), 4 * kMiB)) << offset << " + " << bytes.size();
      } catch (const SessionError&) {
      }
    }
  }
  [[nodiscard]] BlockRecord& record() const { return reader_->segment().record(block_); }

  Peer owner_{*memory_, 0};
  Peer peer_{*memory_, 1};
  const std::unique_ptr<Arena> arena_ = owner_.make_arena();
  const BlockNumber block_ = *arena_->allocate(1000);
  const std::unique_ptr<Arena> reader_ = peer_.open_arena(arena_->segment());
};

TEST_F(ChangingNumbers, BlockSizeIsReadOnce) {
  const Flipping size(record().size, std::uint64_t{1} << 40);
  expect_inside();
}

TEST_F(ChangingNumbers, BlockOffsetIsReadOnce) {
  const Flipping offset(record().offset, std::uint64_t{1} << 40);
  expect_inside();
}

TEST_F(ChangingNumbers, HeaderCannotClaimMoreThanTheFileHas) {
  ArenaHeader& header = reader_->segment().header();
  const std::uint64_t committed = header.committed.load();
  EXPECT_EQ(reader_->bytes(block_, Access::read_only).size(), 1000u);
  header.committed.store(kSmall.data_reserve);
  for (const std::uint64_t offset : {committed - 999, committed, kSmall.data_reserve - 1000}) {
    record().offset.store(offset);
    EXPECT_THROW(static_cast<void>(reader_->bytes(block_, Access::read_only)), SessionError);
    EXPECT_EQ(reader_->bytes_at_once(block_, Access::read_only).data(), nullptr);
  }
  record().offset.store(committed - 1000);
  EXPECT_EQ(reader_->bytes(block_, Access::read_only)[999], std::byte{});
}

TEST_F(ChangingNumbers, ExtendedFileIsReachable) {
  EXPECT_EQ(reader_->bytes(block_, Access::read_only).size(), 1000u);
  const BlockNumber later = *arena_->allocate(20 * kMiB);
  EXPECT_EQ(reader_->bytes(later, Access::read_only).size(), 20 * kMiB);
  EXPECT_NE(reader_->bytes_at_once(later, Access::read_only).data(), nullptr);
}

TEST_F(ChangingNumbers, CheckedIdentityIsUsed) {
  const SessionId id = memory_->id();
  const SessionId other = testing::fresh_session();
  memory_->header().id = other;
  reader_->segment().header().session = other;
  EXPECT_EQ(memory_->id(), id);
  EXPECT_EQ(reader_->segment().session(), id);
}

TEST_F(ChangingNumbers, GrowthIgnoresForgedHeader) {
  ArenaHeader& header = arena_->segment().header();
  const std::uint64_t before = file_size(*arena_->segment().file());
  header.capacity.store(~std::uint32_t{0});
  arena_->segment().grow_capacity();
  EXPECT_EQ(arena_->segment().capacity(), kSmall.max_blocks);
  EXPECT_EQ(file_size(*arena_->segment().file()), before);
}

}  // namespace
}  // namespace shmtensor
