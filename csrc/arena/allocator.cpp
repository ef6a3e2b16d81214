#include "arena/allocator.hpp"

namespace shmtensor {

std::optional<Piece> Allocator::take_warm(std::uint64_t size) {
  if (!spare_number()) return std::nullopt;
  const Space::Range range = take_range(size);
  if (range == Space::kNone) return std::nullopt;
  if (!data_.is_backed(space_.offset(range), space_.size(range))) {
    space_.give(range);
    return std::nullopt;
  }
  return book(take_number(), range);
}

// The number and the range are reserved before the lock is released.
std::optional<Piece> Allocator::take(YieldingLock& lock, std::uint64_t size) {
  data_.clear_shortage();
  if (!make_number(lock)) return std::nullopt;
  Space::Range range = take_range(size);
  bool grown = false;
  if (range == Space::kNone) {
    if (!data_.grow(space_, size)) return std::nullopt;
    grown = true;
    range = take_range(size);
  }
  const BlockNumber block = take_number();
  const auto give_both = [&] {
    space_.give(range);
    free_numbers_.push_back(block);
  };
  try {
    if (back(lock, range)) {
      if (grown) data_.back_ahead(lock);
      return book(block, range);
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
  if (books_.size() >= segment_.capacity()) return false;
  if (books_.size() == books_.capacity()) books_.reserve(2 * books_.size() + 1);
  free_numbers_.reserve(books_.capacity());  // so that freeing never has to allocate
  free_numbers_.push_back(static_cast<BlockNumber>(books_.size()));
  books_.push_back(Space::kNone);
  return true;
}

// Returns false if the arena has the maximum number of blocks. Throws OutOfMemory.
bool Allocator::make_number(YieldingLock& lock) {
  while (!spare_number()) {
    if (growing_) {
      lock.wait();
      continue;
    }
    if (segment_.capacity() == segment_.geometry().max_blocks) return false;
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

Piece Allocator::book(BlockNumber block, Space::Range range) noexcept {
  books_[block] = range;  // the idle time of an extent begins when its last block is freed
  return {block, space_.offset(range)};
}

Space::Range Allocator::take_range(std::uint64_t size) {
  return space_.take(data_.rounded(size), data_.alignment(size));
}

void Allocator::reclaim(BlockNumber block) {
  if (block >= books_.size() || books_[block] == Space::kNone) return;
  const BlockWord word(segment_.record(block).word.load());
  if (word.live()) return;
  touch(books_[block]);
  space_.give(books_[block]);
  books_[block] = Space::kNone;
  // A block number whose generations are used up is never used again.
  if (word.generation() != BlockWord::kLastGeneration) free_numbers_.push_back(block);
}

void Allocator::touch(Space::Range range) noexcept {
  data_.touch(space_.offset(range), space_.size(range));
}

bool Allocator::back(YieldingLock& lock, Space::Range range) {
  return data_.back(lock, space_.offset(range), space_.size(range));
}

}  // namespace shmtensor
