// The state of a block in one 64-bit word, so that one compare-and-swap decides its fate.
#pragma once

#include <cstdint>

#include "base/ids.hpp"

namespace shmtensor {

/// generation:32 | epoch:31 | live:1
///
/// The generation counts how often the record has been handed out; it moves on when the block is
/// freed, so a handle that says an older one is stale. A record whose generation is used up is
/// never handed out again. The epoch counts events that make a block busy without a trace in the
/// holder bits that a freeing process may already have looked at (a ticket published, a hold
/// without a ticket); it makes the freeing compare-and-swap fail. It wraps: a process would have to
/// be stopped between two instructions for exactly a multiple of 2^31 sends of one block to be
/// fooled.
class BlockWord {
 public:
  static constexpr std::uint64_t kLive = 1;
  static constexpr Generation kLastGeneration = 0xffffffff;

  constexpr BlockWord() noexcept = default;
  constexpr explicit BlockWord(std::uint64_t bits) noexcept : bits_(bits) {}
  static constexpr BlockWord live_at(Generation generation) noexcept {
    return BlockWord(std::uint64_t{generation} << 32 | kLive);
  }
  static constexpr BlockWord free_at(Generation generation) noexcept {
    return BlockWord(std::uint64_t{generation} << 32);
  }

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool live() const noexcept { return (bits_ & kLive) != 0; }
  [[nodiscard]] constexpr Generation generation() const noexcept {
    return static_cast<Generation>(bits_ >> 32);
  }
  [[nodiscard]] constexpr bool live_at_generation(Generation generation) const noexcept {
    return live() && this->generation() == generation;
  }

  [[nodiscard]] constexpr BlockWord next_epoch() const noexcept {
    const std::uint64_t low = ((bits_ & 0xffffffff) + 2) & 0xffffffff;
    return BlockWord((bits_ & ~std::uint64_t{0xffffffff}) | low);
  }
  [[nodiscard]] constexpr BlockWord freed() const noexcept {
    return free_at(generation() == kLastGeneration ? kLastGeneration : generation() + 1);
  }

 private:
  std::uint64_t bits_ = 0;
};

}  // namespace shmtensor
