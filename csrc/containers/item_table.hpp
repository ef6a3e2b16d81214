// The file format of the items of a SharedList: items of any length, stored one after another, and
// the offset of each.
//
//   piece 0    head | size of each piece | entry of each item | items
//   piece 1..  items
//
// A table is written once and then only read. The memory may be damaged, so the reader checks every
// value before it uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shmtensor {

inline constexpr std::uint64_t kItemsMagic = 0x3273'6d65'7469'7473;  // "stitems2"

/// The form of an item's bytes.
enum class ItemForm : std::uint32_t {
  plain = 0,     ///< as declared by the table's kind
  buffered = 1,  ///< a BufferedItem: a pickle with buffers out of band
  nested = 2,    ///< a KeyTable: a mapping whose values are items of the same table
  array = 3,     ///< an ArrayItem
};

struct ItemsHead {
  std::uint64_t magic;
  std::uint64_t kind;  ///< defined by the layer above: the type of the items
  std::uint64_t count;
  std::uint64_t pieces;
};
static_assert(sizeof(ItemsHead) == 32);

/// form:2 | piece:22 | offset:40. An item ends at the beginning of the next item of its piece, or
/// at the end of the piece.
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

/// An item, as stored in the table.
struct Item {
  ItemForm form = ItemForm::plain;
  std::uint64_t piece = 0;
  std::uint64_t offset = 0;  ///< within the piece
  std::span<const std::byte> bytes;
};

/// Reads a table of items.
/// Threads: all members may be called simultaneously.
class ItemTable {
 public:
  using Piece = std::span<const std::byte>;

  ItemTable() = default;
  /// Checks the header and the sizes of the pieces, without reading the items. Throws CorruptData.
  explicit ItemTable(std::vector<Piece> pieces);

  [[nodiscard]] std::uint64_t size() const noexcept { return head_.count; }
  [[nodiscard]] std::uint64_t kind() const noexcept { return head_.kind; }
  /// The number of bytes of all pieces.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] const std::vector<Piece>& pieces() const noexcept { return pieces_; }

  /// Requires `index < size()`. Throws CorruptData if the entry points outside the pieces.
  [[nodiscard]] Item at(std::uint64_t index) const;

 private:
  std::vector<Piece> pieces_;
  ItemsHead head_{};
  const std::byte* entries_ = nullptr;
};

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
  std::span<const std::byte> shape;  ///< 8 bytes per dimension
  std::span<const std::byte> type;
  std::uint64_t elements = 0;
  bool fortran = false;

  /// Throws CorruptData.
  static ArrayItem parse(std::span<const std::byte> bytes);
};

}  // namespace shmtensor
