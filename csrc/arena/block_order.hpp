// The blocks of an arena, ordered by their offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"

namespace shmtensor {

/// Places of blocks. Some may be outdated; the user finds out, and erases them. In chunks of
/// bounded size, so that a change moves few places and a search reads few cache lines. Threads:
/// one.
class BlockOrder {
 public:
  struct Place {
    std::uint64_t offset;
    BlockNumber block;
  };

  /// Replaces the block at an offset that is known. If it throws, no place has changed.
  void put(const Place& place);
  /// Returns the last place that begins at the offset or before it.
  [[nodiscard]] std::optional<Place> last_until(std::uint64_t offset) const noexcept;
  void erase(std::uint64_t offset) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  template <typename Predicate>
  void erase_if(Predicate&& is_outdated) noexcept {
    for (Chunk& chunk : chunks_) size_ -= std::erase_if(chunk.places, is_outdated);
    std::erase_if(chunks_, [](const Chunk& chunk) { return chunk.places.empty(); });
  }

 private:
  struct Chunk {
    std::uint64_t offset;  ///< at most that of the first place, above that of the last one before
    std::vector<Place> places;
  };

  void split(std::size_t index);

  std::vector<Chunk> chunks_;  ///< none is empty
  std::size_t size_ = 0;
};

}  // namespace shmtensor
