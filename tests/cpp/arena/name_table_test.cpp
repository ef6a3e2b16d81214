#include "arena/name_table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

class NameTableTest : public testing::WorldTest {
 protected:
  std::uint32_t make(std::string_view name) { return *table_.find(name, key_, true); }

  NameTable& table_ = memory_->names();
  SipKey key_ = memory_->header().key;
};

TEST_F(NameTableTest, NameKeepsOneRecord) {
  EXPECT_FALSE(table_.find("a", key_, false));
  const std::uint32_t number = make("a");
  EXPECT_EQ(make("a"), number);
  EXPECT_EQ(table_.find("a", key_, false), number);
  EXPECT_EQ(table_.name(number), "a");
  EXPECT_NE(make("b"), number);
}

TEST_F(NameTableTest, UpdateFromOldStateFails) {
  const std::uint32_t number = make("a");
  const NameState free;
  const NameState busy = free.next(NameStage::busy, 1, 7, 3);
  EXPECT_EQ(busy.slot(), 7);
  EXPECT_EQ(busy.incarnation(), 3u);
  EXPECT_EQ(busy.stage(), NameStage::busy);
  EXPECT_EQ(busy.place(), 1u);
  ASSERT_TRUE(table_.change(number, free, busy));
  EXPECT_FALSE(table_.change(number, free, busy)) << "it is no longer so";
  const NameState again = busy.next(NameStage::free, 0, 7, 3);
  EXPECT_NE(again.bits, free.bits) << "the turn has moved";
}

TEST_F(NameTableTest, HandlesRoundTrip) {
  const std::uint32_t number = make("a");
  NameHandle handle;
  for (std::size_t i = 0; i < handle.size(); ++i) handle[i] = static_cast<std::byte>(i);
  table_.write_handle(number, 1, handle);
  EXPECT_EQ(table_.read_handle(number, 1), handle);
  EXPECT_FALSE(is_handle(table_.read_handle(number, 0)));
}

TEST_F(NameTableTest, AcceptsNamesUpToItsCapacity) {
  std::set<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < NameTable::kNames; ++i) {
    numbers.insert(make("name " + std::to_string(i)));
  }
  EXPECT_EQ(numbers.size(), NameTable::kNames);
  EXPECT_THROW(make("one more"), OutOfMemory);
  EXPECT_FALSE(table_.find("one more", key_, false));
  EXPECT_TRUE(table_.find("name 77", key_, true));
}

}  // namespace
}  // namespace shmtensor
