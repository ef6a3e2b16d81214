// The file format of the index of a SharedDict: a hash table from keys to numbers.
//
//   head | slots (a power of two, at most half full) | records, in order of insertion | texts
//
// A table is written once and then only read. The memory may be damaged, so the reader checks every
// value before it uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shmtensor {

inline constexpr std::uint64_t kKeysMagic = 0x3162'7479'656b'7473;  // "stkeytb1"

/// A 64-bit integer or a UTF-8 string.
using Key = std::variant<std::int64_t, std::string_view>;

/// Reads a table of keys.
/// Threads: all members may be called simultaneously.
class KeyTable {
 public:
  /// A key and its value. The index of a record is its place in the order of insertion.
  struct Record {
    Key key;
    std::uint64_t value = 0;
  };

  KeyTable() = default;
  /// Throws CorruptData.
  explicit KeyTable(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  /// Returns the place of a key. Throws CorruptData.
  [[nodiscard]] std::optional<std::uint64_t> find(const Key& key) const;
  /// Requires `place < size()`. Throws CorruptData.
  [[nodiscard]] Record at(std::uint64_t place) const;

 private:
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const noexcept;

  std::span<const std::byte> bytes_;
  std::uint64_t count_ = 0;
  std::uint64_t slots_ = 0;
  std::uint64_t records_ = 0;  // offset
};

/// Builds a table of keys.
/// Threads: one.
class KeyTableBuilder {
 public:
  /// Returns false, and changes nothing, if the key was added before.
  bool add(const Key& key, std::uint64_t value);
  [[nodiscard]] std::string finish() const;

 private:
  struct Entry {
    std::uint64_t hash;
    bool is_text;
    std::uint64_t value;
    std::uint64_t number_or_offset;
    std::uint64_t size;
  };

  [[nodiscard]] bool same(const Entry& entry, const Key& key) const;
  void grow();

  std::vector<Entry> entries_;
  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(8, 0);
  std::string texts_;
};

}  // namespace shmtensor
