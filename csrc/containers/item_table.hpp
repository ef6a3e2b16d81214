// Items of any length, one after another, and where each begins: what a SharedList keeps in shared
// memory. docs/design/containers.md draws it.
//
//   piece 0    head | size of each piece | entry of each item | items
//   piece 1..  items
//
// Written once, then only read, perhaps out of memory that somebody damaged: nothing in it is
// trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shmtensor {

inline constexpr std::uint64_t kItemsMagic = 0x3173'6d65'7469'7473;  // "stitems1"
inline constexpr std::uint32_t kItemsVersion = 1;

/// What the bytes of an item are.
enum class ItemForm : std::uint32_t {
  plain = 0,     ///< as the table's kind says
  buffered = 1,  ///< a BufferedItem: a pickle with buffers out of band
  nested = 2,    ///< a KeyTable: a mapping whose values are items of the same table
  array = 3,     ///< an ArrayItem
};

struct ItemsHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t kind;  ///< the layer above says what its items are
  std::uint64_t count;
  std::uint64_t pieces;
  std::uint64_t items;  ///< offset in piece 0 at which its items begin
  std::uint64_t check;  ///< over the fields before it and the sizes of the pieces
};
static_assert(sizeof(ItemsHead) == 48);

/// form:2 | piece:22 | offset:40. An item ends where the next one of its piece begins, or with the
/// piece.
struct ItemEntry {
  std::uint64_t bits;

  [[nodiscard]] constexpr ItemForm form() const noexcept {
    return static_cast<ItemForm>(bits >> 62);
  }
  [[nodiscard]] constexpr std::uint64_t piece() const noexcept {
    return bits >> 40 & ((std::uint64_t{1} << 22) - 1);
  }
  [[nodiscard]] constexpr std::uint64_t offset() const noexcept {
    return bits & ((std::uint64_t{1} << 40) - 1);
  }
};

/// One item as it was found.
struct Item {
  ItemForm form = ItemForm::plain;
  std::uint64_t piece = 0;
  std::uint64_t offset = 0;  ///< in its piece
  std::span<const std::byte> bytes;
};

/// A reader.
/// Threads: all members may be called at the same time.
class ItemTable {
 public:
  using Piece = std::span<const std::byte>;

  ItemTable() = default;
  /// Checks what can be checked without touching the items. Throws CorruptData.
  explicit ItemTable(std::vector<Piece> pieces);

  [[nodiscard]] std::uint64_t size() const noexcept { return head_.count; }
  [[nodiscard]] std::uint32_t kind() const noexcept { return head_.kind; }
  /// Bytes of all pieces.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] const std::vector<Piece>& pieces() const noexcept { return pieces_; }

  /// `index` is less than `size()`. Throws CorruptData when the entry points elsewhere.
  [[nodiscard]] Item at(std::uint64_t index) const;

 private:
  std::vector<Piece> pieces_;
  ItemsHead head_{};
  const std::byte* entries_ = nullptr;
};

/// How a head's check is computed: the writer is in Python.
[[nodiscard]] std::uint64_t items_check(std::span<const std::byte> head_and_sizes) noexcept;

/// An item with buffers out of band, at a multiple of 64 bytes:
///
///   buffers:8 | size of the pickle:8 | (offset from here:8, size:8) per buffer | pickle | buffers
struct BufferedItem {
  struct Buffer {
    std::uint64_t offset;
    std::uint64_t size;
  };
  std::span<const std::byte> pickle;
  std::vector<Buffer> buffers;

  /// Throws CorruptData.
  static BufferedItem parse(std::span<const std::byte> bytes);
};

/// An array, at a multiple of 64 bytes:
///
///   dimensions:8 | order:8 | size of the type:8 | offset of the elements from here:8 | shape |
///   type
///
/// The order is 0 for C and 1 for Fortran; the type is what the layer above writes for a dtype.
struct ArrayItem {
  std::span<const std::byte> shape;  ///< 8 bytes a dimension
  std::span<const std::byte> type;
  std::uint64_t elements = 0;
  bool fortran = false;

  /// Throws CorruptData.
  static ArrayItem parse(std::span<const std::byte> bytes);
};

}  // namespace shmtensor
