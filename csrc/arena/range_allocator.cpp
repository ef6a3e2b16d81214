#include "arena/range_allocator.hpp"

#include <bit>

#include "base/align.hpp"

namespace shmtensor {

RangeAllocator::RangeAllocator() {
  for (auto& heads : heads_) heads.fill(kNone);
}

// Sizes below 32 units have a class each; above, each power of two is divided into 32 classes.
RangeAllocator::Class RangeAllocator::class_of(std::uint64_t size) noexcept {
  const std::uint64_t units = size / kUnit;
  if (units < kSecond) return {0, static_cast<std::uint32_t>(units)};
  const auto top = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
  return {top - kSecondBits + 1,
          static_cast<std::uint32_t>(units >> (top - kSecondBits)) - kSecond};
}

// Returns the first range of the size's own class if it is large enough (such as a range by which
// the data segment was just extended), otherwise a range of a class in which all ranges are.
RangeAllocator::Range RangeAllocator::find(std::uint64_t size) const noexcept {
  const Class own = class_of(size);
  if (own.first >= kFirst) return kNone;
  const Range head = heads_[own.first][own.second];
  if (head != kNone && nodes_[head].size >= size) return head;
  std::uint64_t units = size / kUnit;
  if (units >= kSecond) {
    const auto top = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
    units += (std::uint64_t{1} << (top - kSecondBits)) - 1;
  }
  Class at = class_of(units * kUnit);
  if (at.first >= kFirst) return kNone;
  const std::uint32_t second = second_bits_[at.first] & ~std::uint32_t{0} << at.second;
  if (second != 0) return heads_[at.first][static_cast<std::size_t>(std::countr_zero(second))];
  const std::uint64_t first =
      at.first + 1 < 64 ? first_bits_ & ~std::uint64_t{0} << (at.first + 1) : 0;
  if (first == 0) return kNone;
  const auto list = static_cast<std::size_t>(std::countr_zero(first));
  return heads_[list][static_cast<std::size_t>(std::countr_zero(second_bits_[list]))];
}

RangeAllocator::Range RangeAllocator::allocate(std::uint64_t size, std::uint64_t alignment) {
  size = align_up(size < kUnit ? kUnit : size, kUnit);
  const auto misfit = [&](Range range) {
    return align_up(nodes_[range].offset, alignment) - nodes_[range].offset;
  };
  Range range = find(size);
  if (range == kNone) return kNone;
  if (misfit(range) + size > nodes_[range].size) {
    range = find(size + alignment - kUnit);
    if (range == kNone) return kNone;
  }
  prepare();  // at most two are split off
  unlink(range);
  if (const std::uint64_t front = misfit(range); front != 0) {
    const Range rest = split(range, front);
    link(range);
    range = rest;
  }
  if (nodes_[range].size > size) link(split(range, size));
  nodes_[range].free = false;
  taken_ += nodes_[range].size;
  return range;
}

void RangeAllocator::free(Range range) noexcept {
  taken_ -= nodes_[range].size;
  nodes_[range].free = true;
  const Range before = nodes_[range].before;
  if (before != kNone && nodes_[before].free && touching(before, range)) {
    unlink(before);
    range = join(before, range);
  }
  const Range after = nodes_[range].after;
  if (after != kNone && nodes_[after].free && touching(range, after)) {
    unlink(after);
    range = join(range, after);
  }
  link(range);
}

void RangeAllocator::extend(std::uint64_t size) {
  extend_at(last_ != kNone ? nodes_[last_].offset + nodes_[last_].size : 0, size);
}

bool RangeAllocator::remove(std::uint64_t offset, std::uint64_t size) {
  for (Range range = first_; range != kNone; range = nodes_[range].after) {
    const Node node = nodes_[range];
    if (node.offset != offset) continue;
    if (!node.free || node.size != size) return false;
    unlink(range);
    (node.before != kNone ? nodes_[node.before].after : first_) = node.after;
    (node.after != kNone ? nodes_[node.after].before : last_) = node.before;
    total_ -= size;
    drop_node(range);
    return true;
  }
  return false;
}

void RangeAllocator::extend_at(std::uint64_t offset, std::uint64_t size) {
  prepare();
  const Range range = new_node();
  Node& node = nodes_[range];
  node = {.offset = offset, .size = size, .before = last_};
  if (last_ != kNone) nodes_[last_].after = range;
  if (first_ == kNone) first_ = range;
  last_ = range;
  total_ += size;
  taken_ += size;
  free(range);
}

void RangeAllocator::link(Range range) noexcept {
  Node& node = nodes_[range];
  const Class at = class_of(node.size);
  Range& head = heads_[at.first][at.second];
  node.free = true;
  node.previous = kNone;
  node.next = head;
  if (head != kNone) nodes_[head].previous = range;
  head = range;
  second_bits_[at.first] |= 1u << at.second;
  first_bits_ |= std::uint64_t{1} << at.first;
}

void RangeAllocator::unlink(Range range) noexcept {
  const Node& node = nodes_[range];
  const Class at = class_of(node.size);
  if (node.next != kNone) nodes_[node.next].previous = node.previous;
  if (node.previous != kNone) {
    nodes_[node.previous].next = node.next;
    return;
  }
  heads_[at.first][at.second] = node.next;
  if (node.next != kNone) return;
  second_bits_[at.first] &= ~(1u << at.second);
  if (second_bits_[at.first] == 0) first_bits_ &= ~(std::uint64_t{1} << at.first);
}

void RangeAllocator::prepare() {
  while (unused_.size() < 2) {
    if (nodes_.size() == nodes_.capacity()) nodes_.reserve(2 * nodes_.size() + 2);
    unused_.reserve(nodes_.capacity());  // so that freeing never has to allocate
    unused_.push_back(static_cast<Range>(nodes_.size()));
    nodes_.emplace_back();
  }
}

RangeAllocator::Range RangeAllocator::new_node() noexcept {
  const Range range = unused_.back();
  unused_.pop_back();
  return range;
}

void RangeAllocator::drop_node(Range range) noexcept { unused_.push_back(range); }

// Shortens `range` to `size` bytes and returns the remainder, which is in no list.
RangeAllocator::Range RangeAllocator::split(Range range, std::uint64_t size) noexcept {
  const Range rest = new_node();
  Node& left = nodes_[range];
  nodes_[rest] = {
      .offset = left.offset + size, .size = left.size - size, .before = range, .after = left.after};
  if (left.after != kNone) nodes_[left.after].before = rest;
  if (last_ == range) last_ = rest;
  left.after = rest;
  left.size = size;
  return rest;
}

RangeAllocator::Range RangeAllocator::join(Range left, Range right) noexcept {
  nodes_[left].size += nodes_[right].size;
  nodes_[left].after = nodes_[right].after;
  if (nodes_[right].after != kNone) nodes_[nodes_[right].after].before = left;
  if (last_ == right) last_ = left;
  drop_node(right);
  return left;
}

}  // namespace shmtensor
