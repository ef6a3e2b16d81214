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
  return book(range);
}

std::optional<Piece> Allocator::take(std::uint64_t size) {
  data_.clear_shortage();
  while (!spare_number()) {
    if (segment_.capacity() == segment_.geometry().max_blocks) return std::nullopt;
    segment_.grow_capacity();
  }
  Space::Range range = take_range(size);
  if (range == Space::kNone) {
    if (!data_.grow(space_, size)) return std::nullopt;
    range = take_range(size);
  }
  try {
    if (back(range)) return book(range);
  } catch (...) {
    space_.give(range);
    throw;
  }
  space_.give(range);
  return std::nullopt;
}

// Comes before anything is taken, for it may throw.
bool Allocator::spare_number() {
  if (!free_numbers_.empty()) return true;
  if (books_.size() >= segment_.capacity()) return false;
  if (books_.size() == books_.capacity()) books_.reserve(2 * books_.size() + 1);
  free_numbers_.reserve(books_.capacity());  // so that giving back never has to allocate
  free_numbers_.push_back(static_cast<BlockNumber>(books_.size()));
  books_.push_back(Space::kNone);
  return true;
}

Piece Allocator::book(Space::Range range) noexcept {
  const BlockNumber block = free_numbers_.back();
  free_numbers_.pop_back();
  books_[block] = range;  // how long an extent idles counts from when its last block came back
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
  // A number whose generations are used up rests for ever.
  if (word.generation() != BlockWord::kLastGeneration) free_numbers_.push_back(block);
}

void Allocator::touch(Space::Range range) noexcept {
  data_.touch(space_.offset(range), space_.size(range));
}

bool Allocator::back(Space::Range range) {
  return data_.back(space_.offset(range), space_.size(range));
}

}  // namespace shmtensor
