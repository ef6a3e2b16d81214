#include "containers/key_table.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace shmtensor {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
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
