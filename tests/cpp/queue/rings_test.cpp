#include "queue/rings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "base/error.hpp"

namespace shmtensor {
namespace {

struct alignas(64) Bytes {
  std::array<std::byte, 64> bytes;
};

std::span<std::byte> bytes_of(std::vector<Bytes>& memory, std::size_t size) {
  memory.assign((size + 63) / 64 + 1, {});
  return std::as_writable_bytes(std::span(memory)).first(size);
}

TEST(Ring, UsesAPowerOfTwoOfEntriesAndKeepsOneSpare) {
  std::vector<Bytes> memory;
  for (const auto& [entries, usable] :
       std::map<std::size_t, std::uint64_t>{{2, 2}, {3, 2}, {4, 4}, {31, 16}, {32, 32}, {33, 32}}) {
    const Ring ring(bytes_of(memory, entries * sizeof(MessageEntry) + 7), 5);
    EXPECT_TRUE(ring);
    EXPECT_EQ(ring.room(), usable - 1);
    EXPECT_EQ(ring.start(), 5u);
    for (std::uint64_t count = 5; count < 5 + 3 * usable; ++count) {
      EXPECT_EQ(&ring.entry(count), &ring.entry(5) + (count - 5) % usable);
      EXPECT_EQ(ring.begins_at(count), (count - 5) % usable == 0);
    }
  }
  EXPECT_FALSE(Ring());
}

TEST(Ring, CountsMayWrap) {
  std::vector<Bytes> memory;
  const std::uint64_t last = ~std::uint64_t{0};
  const Ring ring(bytes_of(memory, 4 * sizeof(MessageEntry)), last);
  EXPECT_EQ(&ring.entry(0), &ring.entry(last) + 1);
}

class FindRing : public ::testing::Test, protected RingMapper {
 protected:
  std::span<std::byte> map_ring(const NamedTicket& named, Strategy strategy) override {
    EXPECT_EQ(named.arena, 3u);
    EXPECT_EQ(named.block, 4u);
    EXPECT_EQ(strategy, Strategy::file_system);
    return mapped_;
  }
  void name_a_ring(std::uint32_t number, std::uint64_t start) {
    RingRecord& record = header_->ring(number);
    record.ticket.write({.arena = 3, .block = 4, .generation = 1, .ticket = {}});
    record.strategy.store(Strategy::file_system);
    record.start.store(start);
  }

  const std::unique_ptr<QueueHeader> header_{new QueueHeader()};
  std::vector<Bytes> memory_;
  std::span<std::byte> mapped_;
};

TEST_F(FindRing, WithoutATicketIsInTheFirstBlock) {
  header_->ring(7 + QueueHeader::kRings).start.store(9);
  const Ring ring = ring_at(*header_, 7, *this);
  EXPECT_EQ(&ring.entry(9), &header_->first_ring[0]);
  EXPECT_EQ(ring.room(), QueueHeader::kFirstRing - 1);
}

TEST_F(FindRing, WithATicketIsMapped) {
  name_a_ring(2, 100);
  mapped_ = bytes_of(memory_, 128 * sizeof(MessageEntry));
  const Ring ring = ring_at(*header_, 2, *this);
  EXPECT_EQ(reinterpret_cast<std::byte*>(&ring.entry(100)), mapped_.data());
  EXPECT_EQ(ring.room(), 127u);
}

TEST_F(FindRing, OfAnArenaThatIsNotMappedIsEmpty) {
  name_a_ring(2, 0);
  EXPECT_FALSE(ring_at(*header_, 2, *this));
}

TEST_F(FindRing, InADamagedBlockIsRefused) {
  name_a_ring(2, 0);
  for (const std::size_t size :
       {std::size_t{1}, sizeof(MessageEntry), 2 * sizeof(MessageEntry) - 1}) {
    mapped_ = bytes_of(memory_, size);
    EXPECT_THROW(static_cast<void>(ring_at(*header_, 2, *this)), SessionError) << size;
  }
  mapped_ = bytes_of(memory_, 4 * sizeof(MessageEntry)).subspan(4);
  EXPECT_THROW(static_cast<void>(ring_at(*header_, 2, *this)), SessionError) << "not aligned";
}

TEST_F(FindRing, OfTheHeadFollowsWhenTheOldestIsUsedUp) {
  header_->ring(1).start.store(31);
  EXPECT_EQ(ring_of_head(*header_, 31), 0u) << "the tail is in the first ring, too";
  header_->tail.ring.store(1);
  EXPECT_EQ(ring_of_head(*header_, 30), 0u);
  EXPECT_EQ(ring_of_head(*header_, 31), 1u);
  header_->head.ring.store(1);
  EXPECT_EQ(ring_of_head(*header_, 31), 1u);
}

TEST(TicketRecord, ReadsWhatWasWritten) {
  TicketRecord record{};
  EXPECT_FALSE(record.read());
  const NamedTicket named{.arena = 0xffffffff,
                          .block = 0xfffffffe,
                          .generation = 0xfffffffd,
                          .ticket = {.sender = 1023, .bit = 31, .group = 0xfffffffc, .serial = 7}};
  record.write(named);
  const auto read = record.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->arena, named.arena);
  EXPECT_EQ(read->block, named.block);
  EXPECT_EQ(read->generation, named.generation);
  EXPECT_EQ(read->ticket.sender, named.ticket.sender);
  EXPECT_EQ(read->ticket.bit, named.ticket.bit);
  EXPECT_EQ(read->ticket.group, named.ticket.group);
  EXPECT_EQ(read->ticket.serial, named.ticket.serial);
  record.clear();
  EXPECT_FALSE(record.read());
}

TEST(TicketContents, AreOneWord) {
  const TicketContents all = QueueHeader::contents();
  const TicketContents read = TicketContents::of(all.bits());
  EXPECT_EQ(read.kind, all.kind);
  EXPECT_EQ(read.stride, all.stride);
  EXPECT_EQ(read.first, all.first);
  EXPECT_EQ(read.count, all.count);
  EXPECT_TRUE(read.fit(sizeof(QueueHeader)));
  EXPECT_FALSE(read.fit(sizeof(QueueHeader) - sizeof(MessageEntry)));
  EXPECT_EQ(TicketContents{}.bits(), 0u);
  EXPECT_EQ(TicketContents::of(ring_contents(1u << 31).bits()).count, 1u << 31);
}

TEST(TicketContents, FitOnlyIfEveryRecordIsInside) {
  const auto fit = [](std::uint32_t stride, std::uint32_t first, std::uint32_t count,
                      std::uint64_t size) {
    return TicketContents{
        .kind = TicketContents::Kind::message, .stride = stride, .first = first, .count = count}
        .fit(size);
  };
  EXPECT_TRUE(fit(32, 0, 1, 24));
  EXPECT_FALSE(fit(32, 0, 1, 23));
  EXPECT_TRUE(fit(32, 8, 2, 64));
  EXPECT_FALSE(fit(32, 8, 2, 63));
  EXPECT_TRUE(fit(32, 0xfff8, 0, 0)) << "no records";
  EXPECT_FALSE(fit(0, 0, 2, 4096)) << "all at the same place";
  EXPECT_FALSE(fit(32, 4, 1, 4096)) << "not aligned";
  EXPECT_FALSE(fit(255 * 32, 0, 0xffffffff, std::uint64_t{1} << 40));
  EXPECT_FALSE(fit(32, 8, 1, 0));
}

}  // namespace
}  // namespace shmtensor
