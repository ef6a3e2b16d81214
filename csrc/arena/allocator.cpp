#include "arena/allocator.hpp"

namespace shmtensor {

std::optional<NewBlock> Allocator::take_warm(std::uint64_t size) {
  if (!spare_number()) return std::nullopt;
  const RangeAllocator::Range range = take_range(size);
  if (range == RangeAllocator::kNone) return std::nullopt;
  if (!data_.is_backed(space_.offset(range), space_.size(range))) {
    space_.free(range);
    return std::nullopt;
  }
  return assign(take_number(), range);
}

// The number and the range are reserved before the lock is released.
std::optional<NewBlock> Allocator::take(YieldingLock& lock, std::uint64_t size) {
  data_.clear_shortage();
  if (!make_number(lock)) return std::nullopt;
  RangeAllocator::Range range = take_range(size);
  bool grown = false;
  if (range == RangeAllocator::kNone) {
    if (!data_.grow(space_, size)) return std::nullopt;
    grown = true;
    range = take_range(size);
  }
  const BlockNumber block = take_number();
  const auto give_both = [&] {
    space_.free(range);
    free_numbers_.push_back(block);
  };
  try {
    if (back(lock, range)) {
      if (grown) data_.back_ahead(lock);
      return assign(block, range);
    }
  } catch (...) {
    give_both();
    throw;
  }
  give_both();
  return std::nullopt;
}

// Called before anything is allocated, since it may throw.
bool Allocator::spare_number() {
  if (!free_numbers_.empty()) return true;
  const std::size_t first = ranges_.size();
  if (first + kTile > segment_.capacity()) return false;
  if (first == ranges_.capacity()) ranges_.reserve(2 * first + kTile);
  free_numbers_.reserve(ranges_.capacity());  // so that freeing never has to allocate
  ranges_.resize(first + kTile, RangeAllocator::kNone);
  for (std::size_t i = kTile; i-- > 0;) {
    const std::size_t number = i % (kTile / kStride) * kStride + i / (kTile / kStride);
    free_numbers_.push_back(static_cast<BlockNumber>(first + number));
  }
  return true;
}

// Returns false if the arena has the maximum number of blocks. Throws OutOfMemory.
bool Allocator::make_number(YieldingLock& lock) {
  while (!spare_number()) {
    if (growing_) {
      lock.wait();
      continue;
    }
    if (segment_.capacity() == segment_.layout().max_blocks) return false;
    growing_ = true;
    try {
      lock.unlocked([this] { segment_.grow_capacity(); });
    } catch (...) {
      growing_ = false;
      throw;
    }
    growing_ = false;
  }
  return true;
}

BlockNumber Allocator::take_number() noexcept {
  const BlockNumber block = free_numbers_.back();
  free_numbers_.pop_back();
  return block;
}

NewBlock Allocator::assign(BlockNumber block, RangeAllocator::Range range) noexcept {
  ranges_[block] = range;  // the idle time of an extent begins when its last block is freed
  return {block, space_.offset(range)};
}

RangeAllocator::Range Allocator::take_range(std::uint64_t size) {
  return space_.allocate(data_.rounded(size), data_.alignment(size));
}

void Allocator::reclaim(BlockNumber block) {
  if (block >= ranges_.size() || ranges_[block] == RangeAllocator::kNone) return;
  const BlockWord word(segment_.record(block).word.load());
  if (!word.is_free()) return;
  touch(ranges_[block]);
  space_.free(ranges_[block]);
  ranges_[block] = RangeAllocator::kNone;
  // A block number whose generations are used up is never used again.
  if (word.generation() != BlockWord::kLastGeneration) free_numbers_.push_back(block);
}

void Allocator::touch(RangeAllocator::Range range) noexcept {
  data_.touch(space_.offset(range), space_.size(range));
}

bool Allocator::back(YieldingLock& lock, RangeAllocator::Range range) {
  return data_.back(lock, space_.offset(range), space_.size(range));
}

}  // namespace shmtensor
