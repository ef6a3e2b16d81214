#include "containers/key_table.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace shmtensor {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(KeyTable, FindsExactlyTheAddedKeys) {
  KeyTableBuilder builder;
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(builder.add(i * 31 - 500, static_cast<std::uint64_t>(i)));
    const std::string text = "key " + std::to_string(i);
    EXPECT_TRUE(builder.add(std::string_view(text), 10'000 + static_cast<std::uint64_t>(i)));
  }
  EXPECT_FALSE(builder.add(std::int64_t{-500}, 1)) << "twice";
  EXPECT_FALSE(builder.add(std::string_view("key 7"), 1)) << "twice";
  const std::string written = builder.finish();
  const KeyTable table(bytes_of(written));
  ASSERT_EQ(table.size(), 2000u);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto number = table.find(i * 31 - 500);
    ASSERT_TRUE(number);
    EXPECT_EQ(table.at(*number).value, static_cast<std::uint64_t>(i));
    const std::string text = "key " + std::to_string(i);
    const auto place = table.find(std::string_view(text));
    ASSERT_TRUE(place);
    EXPECT_EQ(table.at(*place).value, 10'000 + static_cast<std::uint64_t>(i));
    EXPECT_EQ(std::get<std::string_view>(table.at(*place).key), text);
  }
  EXPECT_FALSE(table.find(std::int64_t{1}));
  EXPECT_FALSE(table.find(std::string_view("key 1000")));
  EXPECT_FALSE(table.find(std::string_view("")));
}

TEST(KeyTable, EmptyTableFindsNothing) {
  const std::string written = KeyTableBuilder().finish();
  const KeyTable table(bytes_of(written));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_FALSE(table.find(std::int64_t{0}));
}

TEST(KeyTable, RejectsTruncatedTableAndStaysInBounds) {
  KeyTableBuilder builder;
  builder.add(std::string_view("a text"), 1);
  builder.add(std::int64_t{5}, 2);
  const std::string written = builder.finish();
  for (std::size_t size = 0; size < written.size(); ++size) {
    EXPECT_THROW(KeyTable(bytes_of(written).first(size)), CorruptData) << size;
  }
  for (std::size_t place = 0; place < written.size(); ++place) {
    std::string damaged = written;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x81);
    try {
      const KeyTable table(bytes_of(damaged));
      static_cast<void>(table.find(std::string_view("a text")));
      for (std::uint64_t i = 0; i < table.size(); ++i) static_cast<void>(table.at(i));
    } catch (const CorruptData&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace shmtensor
