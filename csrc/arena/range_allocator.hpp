// The free ranges of a data segment: a two-level segregated fit (Masmano et al., "TLSF: a new
// dynamic memory allocator for real-time systems", 2004) over offsets. The bookkeeping is in
// private memory, so blocks in shared memory have no headers that a peer could damage.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace shmtensor {

/// Allocating and freeing are O(1). Ranges are multiples of 64 bytes.
/// Threads: protected by the owner's lock.
class RangeAllocator {
 public:
  using Range = std::uint32_t;  ///< identifies a range while it exists
  static constexpr Range kNone = ~Range{0};
  static constexpr std::uint64_t kUnit = 64;

  RangeAllocator();

  /// Reserves heap memory for the records of the next `take` or `extend`, which then does not
  /// throw. Without it, they throw before they change anything.
  void prepare();

  /// Allocates a range of at least `size` bytes at a multiple of `alignment` (a power of two, 64 or
  /// more). Returns kNone if no free range is large enough.
  Range allocate(std::uint64_t size, std::uint64_t alignment = kUnit);

  /// Frees a range and joins it with free neighbours.
  void free(Range range) noexcept;

  /// Adds `size` bytes at the end.
  void extend(std::uint64_t size);

  /// Adds a range after all others, with an unused gap before it: ranges are not joined across the
  /// gap.
  void extend_at(std::uint64_t offset, std::uint64_t size);

  /// Removes a range that `extend_at` added, if all of it is free.
  bool remove(std::uint64_t offset, std::uint64_t size);

  [[nodiscard]] std::uint64_t offset(Range range) const { return nodes_[range].offset; }
  [[nodiscard]] std::uint64_t size(Range range) const { return nodes_[range].size; }
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  /// Returns the size of the last range if it is free, else 0.
  [[nodiscard]] std::uint64_t free_at_end() const noexcept {
    return last_ != kNone && nodes_[last_].free ? nodes_[last_].size : 0;
  }

  /// Calls `visit(offset, size)` for each free range of at least `size` bytes.
  template <typename Visit>
  void for_each_free(std::uint64_t size, Visit&& visit) const {
    for (Range range = first_; range != kNone; range = nodes_[range].after) {
      const Node& node = nodes_[range];
      if (node.free && node.size >= size) visit(node.offset, node.size);
    }
  }

 private:
  static constexpr std::uint32_t kSecondBits = 5;
  static constexpr std::uint32_t kSecond = 1u << kSecondBits;
  static constexpr std::uint32_t kFirst = 44;

  struct Node {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    Range before = kNone;  // neighbours by address
    Range after = kNone;
    Range previous = kNone;  // neighbours in the list of free ranges of this class
    Range next = kNone;
    bool free = false;
  };
  struct Class {
    std::uint32_t first;
    std::uint32_t second;
  };

  static Class class_of(std::uint64_t size) noexcept;
  [[nodiscard]] Range find(std::uint64_t size) const noexcept;
  void link(Range range) noexcept;
  void unlink(Range range) noexcept;
  Range new_node() noexcept;
  void drop_node(Range range) noexcept;
  Range split(Range range, std::uint64_t size) noexcept;
  Range join(Range left, Range right) noexcept;
  [[nodiscard]] bool touching(Range left, Range right) const noexcept {
    return nodes_[left].offset + nodes_[left].size == nodes_[right].offset;
  }

  std::vector<Node> nodes_;
  std::vector<Range> unused_;
  Range first_ = kNone;
  Range last_ = kNone;
  std::uint64_t total_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t first_bits_ = 0;
  std::array<std::uint32_t, kFirst> second_bits_{};
  std::array<std::array<Range, kSecond>, kFirst> heads_;
};

}  // namespace shmtensor
