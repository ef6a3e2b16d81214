// Keys to numbers in memory that several processes read: what a SharedDict looks things up in.
// docs/design/containers.md draws it.
//
//   head | slots (a power of two, at most half full) | records, in order of insertion | texts
//
// Written once, then only read; nothing in it is trusted.
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

/// A key: a 64-bit integer or a text in UTF-8.
using Key = std::variant<std::int64_t, std::string_view>;

/// A reader.
/// Threads: all members may be called at the same time.
class KeyTable {
 public:
  /// What a key leads to, and in which place it was inserted.
  struct Record {
    Key key;
    std::uint64_t value = 0;
  };

  KeyTable() = default;
  /// Throws CorruptData.
  explicit KeyTable(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
  /// The place of a key. Throws CorruptData.
  [[nodiscard]] std::optional<std::uint64_t> find(const Key& key) const;
  /// `place` is less than `size()`. Throws CorruptData.
  [[nodiscard]] Record at(std::uint64_t place) const;

 private:
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const noexcept;

  std::span<const std::byte> bytes_;
  std::uint64_t count_ = 0;
  std::uint64_t slots_ = 0;
  std::uint64_t records_ = 0;  // offset
};

/// A writer.
class KeyTableBuilder {
 public:
  /// False when the key is there already; then nothing changes.
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
