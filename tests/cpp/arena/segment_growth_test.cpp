// Block records and holder planes are added while several processes use them.
#include <gtest/gtest.h>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/private_shm.hpp"
#include "support/shared.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::in_child;
using testing::kSmall;

/// Returns true if a page exists for every byte of the range. Access to a missing one may be
/// SIGBUS.
bool is_backed(const Segment& segment, std::uint64_t offset, std::uint64_t size) {
  const Segment::File file = segment.file();
  const std::uint64_t before = file_usage(*file);
  return reserve_pages(*file, offset, size) && file_usage(*file) == before;
}

void expect_backed(const Segment& segment, std::uint32_t planes) {
  const SegmentLayout& g = segment.layout();
  const std::uint64_t blocks = segment.capacity();
  EXPECT_TRUE(is_backed(segment, g.records(), blocks * sizeof(BlockRecord)));
  EXPECT_TRUE(is_backed(segment, g.freed(), blocks / 8));
  EXPECT_TRUE(is_backed(segment, g.freed() + g.max_blocks / 8, g.max_blocks / 512));
  for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
    if ((planes & 1u << plane) == 0) continue;
    EXPECT_TRUE(is_backed(segment, g.holders(plane), blocks * 8)) << plane;
    EXPECT_TRUE(is_backed(segment, g.senders(plane), blocks * 8)) << plane;
  }
}

class SegmentGrowth : public ::testing::Test {
 protected:
  std::unique_ptr<Segment> create(SegmentLayout layout,
                                  Strategy strategy = Strategy::file_descriptor) {
    return Segment::create(id_, ++number_, 0, 1, strategy, layout);
  }

  const SessionId id_ = testing::fresh_session();
  ArenaNumber number_ = 0;
};

TEST_F(SegmentGrowth, CapacityDoublesUpToTheMaximum) {
  const auto segment = create({8192, 64 * kMiB});
  expect_backed(*segment, 1);
  for (const std::uint32_t expected : {2048u, 4096u, 8192u, 8192u}) {
    segment->grow_capacity();
    EXPECT_EQ(segment->capacity(), expected);
    expect_backed(*segment, 1);
  }
}

// A read of a hole allocates a page, and is SIGBUS if memory is exhausted.
TEST_F(SegmentGrowth, ChunkRecordPagesAreReservedBeforeAccess) {
  for (const Strategy strategy : {Strategy::device, Strategy::external}) {
    const auto segment = create(kSmall, strategy);
    const std::uint64_t before = file_usage(*segment->file());
    for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
      EXPECT_EQ(segment->chunk(chunk).size.load(), 0u);
    }
    EXPECT_EQ(file_usage(*segment->file()), before);
  }
}

TEST_F(SegmentGrowth, PlaneIsCreatedForTheSlotThatNeedsIt) {
  const auto segment = create(kSmall);
  const std::uint64_t before = file_usage(*segment->file());
  segment->ensure_plane(63);
  EXPECT_EQ(segment->planes(), 1u);
  EXPECT_EQ(file_usage(*segment->file()), before);
  segment->ensure_plane(64);
  segment->ensure_plane(kMaxSlots - 1);
  EXPECT_EQ(segment->planes(), 0x8003u);
  expect_backed(*segment, 0x8003);
  const std::uint64_t after = file_usage(*segment->file());
  segment->ensure_plane(70);
  EXPECT_EQ(file_usage(*segment->file()), after) << "it exists already";
  segment->grow_capacity();
  expect_backed(*segment, 0x8003);
}

// The process that set the bit may have been killed before the pages existed.
TEST_F(SegmentGrowth, AnnouncedPlaneIsCreatedByNextProcess) {
  const auto segment = create(kSmall);
  segment->header().planes_wanted.fetch_or(1u << 5);
  EXPECT_EQ(segment->planes(), 1u) << "no process reads it yet";
  segment->ensure_plane(5 * 64);
  expect_backed(*segment, 1u << 5);
}

TEST_F(SegmentGrowth, PlanesAndRecordsGrowConcurrently) {
  testing::Shared<testing::Turn> round;
  constexpr int kRounds = 40;
  std::vector<std::unique_ptr<Segment>> segments;
  for (int i = 0; i < kRounds; ++i) segments.push_back(create({1u << 15, 64 * kMiB}));
  Child child([&] {
    for (int i = 0; i < kRounds; ++i) {
      const Segment& mine = *segments[static_cast<std::size_t>(i)];
      const auto segment = Segment::open(id_, mine.number(), (*mine.file()).duplicate());
      round->set(2 * i + 1);
      while (round->get() < 2 * i + 2) {
      }
      for (SlotNumber slot = 64; slot < 64 * 5; slot += 64) segment->ensure_plane(slot);
    }
    round->set(2 * kRounds + 1);
  });
  for (int i = 0; i < kRounds; ++i) {
    const Segment& segment = *segments[static_cast<std::size_t>(i)];
    ASSERT_TRUE(round->reaches(2 * i + 1));
    round->set(2 * i + 2);
    for (int grow = 0; grow < 5; ++grow) segment.grow_capacity();
  }
  ASSERT_TRUE(round->reaches(2 * kRounds + 1));
  EXPECT_EQ(child.wait(), 0);
  for (const auto& segment : segments) {
    EXPECT_EQ(segment->capacity(), 1u << 15);
    EXPECT_EQ(segment->planes(), 0x1fu);
    expect_backed(*segment, 0x1f);
  }
}

TEST_F(SegmentGrowth, FailedArenaCreationLeavesNoName) {
  if (!testing::private_shm_works()) GTEST_SKIP() << "mount namespaces are not available";
  in_child([&] {
    ASSERT_TRUE(testing::enter_private_shm(32 * kKiB));
    EXPECT_THROW(static_cast<void>(create(kSmall, Strategy::file_system)), OutOfMemory);
    EXPECT_TRUE(list_shm("shmtensor").empty());
  });
}

TEST_F(SegmentGrowth, FailedRecordGrowthKeepsOldRecords) {
  if (!testing::private_shm_works()) GTEST_SKIP() << "mount namespaces are not available";
  in_child([&] {
    ASSERT_TRUE(testing::enter_private_shm(112 * kKiB + 12 * page_size()));
    const auto segment = create({1u << 16, 64 * kMiB}, Strategy::file_system);
    try {
      for (int i = 0; i < 6; ++i) segment->grow_capacity();
      ADD_FAILURE() << "2 MiB of records fit";
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos);
    }
    EXPECT_LT(segment->capacity(), 1u << 15);
    expect_backed(*segment, 1);
  });
}

// Every process reads the announced planes: one whose pages could not be reserved would be SIGBUS
// for all.
TEST_F(SegmentGrowth, FailedPlaneCreationAffectsOnlyItsProcess) {
  if (!testing::private_shm_works()) GTEST_SKIP() << "mount namespaces are not available";
  in_child([&] {
    ASSERT_TRUE(testing::enter_private_shm(64 * page_size()));
    const auto segment = create(kSmall, Strategy::file_system);
    const Fd filler = create_shm("filler");
    std::uint64_t filled = 0;
    while (reserve_pages(filler, filled, page_size())) filled += page_size();
    EXPECT_THROW(segment->ensure_plane(64), OutOfMemory);
    for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
      if ((segment->planes() & 1u << plane) == 0) continue;
      EXPECT_EQ(segment->holders(plane, 0).load(), 0u);
      EXPECT_EQ(segment->senders(plane, 1023).load(), 0u);
    }
  });
}

}  // namespace
}  // namespace shmtensor
