// The state of a block in one 64-bit word, so that one compare-and-swap decides whether the block
// is freed.
#pragma once

#include <cstdint>

#include "base/ids.hpp"

namespace shmtensor {

/// generation:32 | epoch:31 | live:1
///
/// A block that is not live is free if its epoch is 0. Otherwise it is draining: it contains
/// tickets of other blocks, which the manager cancels before it frees the block.
///
/// The generation counts how often the record has been allocated. It changes when the block is
/// freed, so a handle with an older generation is stale. A record whose generations are used up is
/// never allocated again. The epoch counts the events that make a block busy and are not visible in
/// holder bits which a freeing process may have read before: a published ticket, or a hold without
/// a ticket. A change of the epoch makes the compare-and-swap of a freeing process fail. The epoch
/// wraps; a wrong match requires that a process is stopped between two instructions for exactly a
/// multiple of 2^31 sends of one block.
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
  [[nodiscard]] constexpr bool is_free() const noexcept { return (bits_ & 0xffffffff) == 0; }
  [[nodiscard]] constexpr bool is_draining() const noexcept { return !live() && !is_free(); }
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
  [[nodiscard]] constexpr BlockWord draining() const noexcept {
    return BlockWord((std::uint64_t{generation()} << 32) | 2);
  }
  [[nodiscard]] constexpr BlockWord freed() const noexcept {
    return free_at(generation() == kLastGeneration ? kLastGeneration : generation() + 1);
  }

 private:
  std::uint64_t bits_ = 0;
};

}  // namespace shmtensor
