#include "containers/item_table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace shmtensor {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& out, const void* from, std::size_t size) {
  const std::size_t end = out.size();
  out.resize(end + size);
  std::memcpy(out.data() + end, from, size);
}

void put(Bytes& out, std::uint64_t word) { append(out, &word, sizeof word); }

// One piece with these items, written as the Python layer does.
Bytes table_of(const std::vector<std::string>& items) {
  std::uint64_t size = 0;
  for (const std::string& item : items) size += item.size();
  const std::uint64_t begin = sizeof(ItemsHead) + 8 + items.size() * 8;
  Bytes out;
  for (const std::uint64_t word : {kItemsMagic, std::uint64_t{0}, std::uint64_t{items.size()},
                                   std::uint64_t{1}, begin + size}) {
    put(out, word);
  }
  std::uint64_t at = begin;
  for (const std::string& item : items) {
    put(out, at);
    at += item.size();
  }
  for (const std::string& item : items) append(out, item.data(), item.size());
  return out;
}

TEST(ItemTable, EntriesNeverPointOutside) {
  const Bytes bytes = table_of({"one", "two"});
  for (std::size_t place = 40; place < 56; ++place) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[place] ^= std::byte{1} << bit;
      const ItemTable table({damaged});
      for (const std::uint64_t index : {0u, 1u}) {
        try {
          const Item item = table.at(index);
          EXPECT_GE(item.bytes.data(), damaged.data());
          EXPECT_LE(item.bytes.data() + item.bytes.size(), damaged.data() + damaged.size());
        } catch (const CorruptData&) {
          continue;
        }
      }
    }
  }
}

TEST(BufferedItem, ChecksEverySize) {
  Bytes bytes;
  for (const std::uint64_t word : {1u, 4u, 40u, 8u}) put(bytes, word);
  bytes.resize(48);
  const BufferedItem item = BufferedItem::parse(bytes);
  EXPECT_EQ(item.pickle.size(), 4u);
  ASSERT_EQ(item.buffers.size(), 1u);
  EXPECT_EQ(item.buffers[0].offset, 40u);
  for (std::size_t word = 0; word < 4; ++word) {
    Bytes damaged = bytes;
    damaged[word * 8 + 6] = std::byte{0xff};
    EXPECT_THROW(static_cast<void>(BufferedItem::parse(damaged)), CorruptData) << word;
  }
  EXPECT_THROW(static_cast<void>(BufferedItem::parse(std::span(bytes).first(8))), CorruptData);
}

TEST(ArrayItem, ChecksEverySize) {
  Bytes bytes;
  for (const std::uint64_t word : {2u, 1u, 3u, 64u, 5u, 6u}) put(bytes, word);
  bytes.resize(100);
  const ArrayItem item = ArrayItem::parse(bytes);
  EXPECT_TRUE(item.fortran);
  EXPECT_EQ(item.shape.size(), 16u);
  EXPECT_EQ(item.type.size(), 3u);
  EXPECT_EQ(item.elements, 64u);
  for (std::size_t word = 0; word < 4; ++word) {
    Bytes damaged = bytes;
    damaged[word * 8 + 6] = std::byte{0xff};
    EXPECT_THROW(static_cast<void>(ArrayItem::parse(damaged)), CorruptData) << word;
  }
}

}  // namespace
}  // namespace shmtensor
