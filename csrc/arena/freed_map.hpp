// Notifies the owner of an arena of the blocks that other processes have freed.
#pragma once

#include <bit>
#include <cstdint>

#include "base/atomic.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// Three levels of bits in shared memory: one bit per block, one bit per word of the first level,
/// and 64 bits for the whole. A process that frees a block sets its bit and then the bits above it
/// that are not set. The owner clears all bits from the top down. Every step is one idempotent
/// atomic operation. A bit that is set twice or late does no harm, because the owner checks the
/// block's word before it reclaims the block. If a process is killed before it sets the upper bits,
/// the owner finds the bit when it compares the block table with its bookkeeping.
///
/// Processes: every process may call `mark`; only the owner calls `take`, protected by its lock.
class FreedMap {
 public:
  FreedMap(Atomic<std::uint64_t>* top, Atomic<std::uint64_t>* words,
           std::uint32_t max_blocks) noexcept
      : top_(top), low_(words), middle_(words + max_blocks / 64), max_blocks_(max_blocks) {}

  void mark(BlockNumber block) const noexcept {
    low_[block / 64].fetch_or(std::uint64_t{1} << block % 64);
    set(middle_[block / 4096], std::uint64_t{1} << block / 64 % 64);
    set(*top_, std::uint64_t{1} << block / span());
  }

  [[nodiscard]] bool any() const noexcept { return top_->load(std::memory_order_relaxed) != 0; }

  /// Calls `visit(block)` for every bit that is set, and clears the bit.
  template <typename Visit>
  void take(Visit&& visit) const {
    for_each_bit(top_->exchange(0), [&](std::uint32_t t) {
      const std::uint32_t first = t * span() / 4096;
      const std::uint32_t count = span() < 4096 ? 1 : span() / 4096;
      for (std::uint32_t m = first; m < first + count; ++m) {
        for_each_bit(middle_[m].exchange(0), [&](std::uint32_t bit) {
          const std::uint32_t low = m * 64 + bit;
          for_each_bit(low_[low].exchange(0), [&](std::uint32_t b) { visit(low * 64 + b); });
        });
      }
    });
  }

 private:
  // A bit of an upper level is often set already, in a cache line that all processes that free
  // blocks write. The owner clears it before it reads the levels below, where the bit of this call
  // has been set.
  static void set(Atomic<std::uint64_t>& word, std::uint64_t bit) noexcept {
    if ((word.load() & bit) == 0) word.fetch_or(bit);
  }
  [[nodiscard]] std::uint32_t span() const noexcept { return max_blocks_ / 64; }

  template <typename Visit>
  static void for_each_bit(std::uint64_t bits, Visit&& visit) {
    for (; bits != 0; bits &= bits - 1) visit(static_cast<std::uint32_t>(std::countr_zero(bits)));
  }

  Atomic<std::uint64_t>* top_;
  Atomic<std::uint64_t>* low_;
  Atomic<std::uint64_t>* middle_;
  std::uint32_t max_blocks_;
};

}  // namespace shmtensor
