#include "arena/segment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "support/child.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::kSmall;

class SegmentOf : public ::testing::Test {
 protected:
  explicit SegmentOf(Strategy strategy) : strategy_(strategy) {}
  ~SegmentOf() override { unlink_shm(name_); }

  [[nodiscard]] bool named() const { return strategy_ == Strategy::file_system; }
  [[nodiscard]] std::unique_ptr<Segment> create() const {
    return Segment::create(id_, 7, 3, 2, strategy_, kSmall);
  }
  [[nodiscard]] std::unique_ptr<Segment> open(const Segment& other) const {
    return named() ? Segment::open_named(id_, 7)
                   : Segment::open(id_, 7, (*other.file()).duplicate());
  }

  const Strategy strategy_;
  const SessionId id_ = testing::fresh_session();
  const std::string name_ = arena_name(id_, 7);
};

/// One body for both strategies.
class SegmentTest : public SegmentOf, public ::testing::WithParamInterface<Strategy> {
 protected:
  SegmentTest() : SegmentOf(GetParam()) {}
};

class NamedSegmentTest : public SegmentOf {
 protected:
  NamedSegmentTest() : SegmentOf(Strategy::file_system) {}
};

class MemfdSegmentTest : public SegmentOf {
 protected:
  MemfdSegmentTest() : SegmentOf(Strategy::file_descriptor) {}
};

TEST_P(SegmentTest, HeaderDescribesTheSegment) {
  const auto segment = create();
  const ArenaHeader& header = segment->header();
  EXPECT_EQ(header.magic, kArenaMagic);
  EXPECT_EQ(header.version, kArenaVersion);
  EXPECT_EQ(header.strategy, GetParam());
  EXPECT_EQ(header.session, id_);
  EXPECT_EQ(header.number, 7u);
  EXPECT_EQ(header.owner, 3u);
  EXPECT_EQ(header.owner_incarnation, 2u);
  EXPECT_EQ(header.pid_namespace, pid_namespace());
  EXPECT_EQ(header.orphaned.load(), 0u);
  EXPECT_EQ(segment->capacity(), 1024u);
  EXPECT_EQ(segment->planes(), 1u);
  EXPECT_EQ(list_shm(name_).size(), named() ? 1u : 0u);
  EXPECT_EQ(open_files(::getpid(), "/memfd:" + name_).size(), named() ? 0u : 1u);
  EXPECT_EQ(segment->keeps_descriptor(), !named());
}

TEST_P(SegmentTest, PeerSeesTheSameHeader) {
  const auto segment = create();
  const auto peer = open(*segment);
  EXPECT_EQ(peer->layout().max_blocks, kSmall.max_blocks);
  EXPECT_EQ(peer->layout().data_reserve, kSmall.data_reserve);
  EXPECT_EQ(peer->strategy(), GetParam());
  EXPECT_EQ(peer->number(), 7u);
  EXPECT_EQ(peer->identity(), segment->identity());
  segment->record(9).word.store(BlockWord::live_at(5).bits());
  EXPECT_TRUE(BlockWord(peer->record(9).word.load()).live_at_generation(5));
  peer->holders(0, 9).fetch_or(bit_of(3));
  EXPECT_EQ(segment->holders(0, 9).load(), bit_of(3));
  segment->senders(0, 10).store(17);
  EXPECT_EQ(peer->senders(0, 10).load(), 17u);
  EXPECT_EQ(peer->senders(0, 9).load(), 0u);
  peer->freed().mark(77);
  EXPECT_TRUE(segment->freed().any());
}

TEST_P(SegmentTest, DataIsMappedOnDemandWithRequestedAccess) {
  const auto segment = create();
  const auto peer = open(*segment);
  EXPECT_EQ(segment->mapping_count(), 1);
  ASSERT_TRUE(reserve_pages(*segment->file(), kSmall.data(), page_size()));
  std::byte* const data = segment->data(Access::read_write, 0, 1);
  EXPECT_EQ(segment->data(Access::read_write, 0, 1), data) << "once";
  EXPECT_EQ(segment->mapping_count(), 2);
  data[5] = std::byte{42};
  std::byte* const seen = peer->data(Access::read_only, 0, 1);
  EXPECT_EQ(seen[5], std::byte{42});
  EXPECT_NE(peer->data(Access::read_write, 0, 1), seen);
  EXPECT_EQ(peer->mapping_count(), 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % (2 * kMiB), 0u);
}

TEST_P(SegmentTest, ChildSeesWritesOfParent) {
  const auto segment = create();
  testing::in_child([&] { open(*segment)->record(1).size.store(99); });
  EXPECT_EQ(segment->record(1).size.load(), 99u);
}

TEST_F(NamedSegmentTest, DuplicateArenaNameIsRejected) {
  const auto segment = create();
  EXPECT_THROW(static_cast<void>(create()), OsError);
  // The failure must not have removed the first one's name.
  EXPECT_EQ(list_shm(name_).size(), 1u);
}

TEST_F(NamedSegmentTest, RemovedOrReplacedNameIsDetected) {
  const auto segment = create();
  EXPECT_TRUE(unlink_shm(name_));
  EXPECT_THROW(static_cast<void>(segment->file()), OsError);
  static_cast<void>(create_shm(name_));
  EXPECT_THROW(static_cast<void>(segment->file()), SessionError);
  try {
    static_cast<void>(Segment::open_named(id_, 8));
    ADD_FAILURE() << "there is no arena 8";
  } catch (const OsError& error) {
    EXPECT_EQ(error.code(), ENOENT);
  }
}

TEST_F(MemfdSegmentTest, ExternallyClosedDescriptorIsNeitherUsedNorClosed) {
  auto segment = create();
  const int number = (*segment->file()).get();
  ASSERT_EQ(::close(number), 0);
  EXPECT_THROW(static_cast<void>(segment->file()), SessionError);
  const Fd other = create_memfd("unrelated");
  ASSERT_EQ(other.get(), number);
  EXPECT_THROW(static_cast<void>(segment->file()), SessionError);
  segment.reset();
  EXPECT_NO_THROW(static_cast<void>(other.identity())) << "it was closed with the segment";
}

TEST_F(MemfdSegmentTest, ReleasedDescriptorIsFetchedOnDemand) {
  const auto segment = create();
  const auto peer = open(*segment);
  int fetched = 0;
  peer->drop_descriptor([&] {
    ++fetched;
    return (*segment->file()).duplicate();
  });
  EXPECT_FALSE(peer->keeps_descriptor());
  EXPECT_NE(peer->data(Access::read_only, 0, 1), nullptr);
  EXPECT_EQ(fetched, 1);
  EXPECT_EQ((*peer->file()).identity(), segment->identity());
  peer->drop_descriptor([] { return create_memfd("another"); });
  EXPECT_THROW(static_cast<void>(peer->file()), SessionError);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SegmentTest,
                         ::testing::Values(Strategy::file_descriptor, Strategy::file_system),
                         [](const auto& test) {
                           return test.param == Strategy::file_system ? "named" : "memfd";
                         });

}  // namespace
}  // namespace shmtensor
