#include "arena/block_order.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace shmtensor {
namespace {

constexpr std::size_t kMostInChunk = 256;

// The index of the last item until the offset, or 0. Without a branch that depends on an item, half
// of which a processor would predict wrongly.
template <typename Item>
std::size_t index_until(const std::vector<Item>& items, std::uint64_t offset) noexcept {
  const Item* base = items.data();
  for (std::size_t count = items.size(); count > 1;) {
    const std::size_t half = count / 2;
    base = base[half].offset <= offset ? base + half : base;
    count -= half;
  }
  return static_cast<std::size_t>(base - items.data());
}

// The same for places that divide [begin, end), which is not empty, into parts of nearly one size,
// as blocks of tensors often do. The search reads the place where the offset would be in parts of
// exactly one size, and its neighbours, then others at twice the distance each time: mostly one
// cache line, where a binary search of a large arena waits for four.
std::size_t index_near(const std::vector<BlockOrder::Place>& places, std::uint64_t offset,
                       std::uint64_t begin, std::uint64_t end) noexcept {
  const std::size_t count = places.size();
  const std::uint64_t part = (end - begin) / count + 1;
  std::size_t low = offset <= begin ? 0 : std::min<std::size_t>((offset - begin) / part, count - 1);
  std::size_t high = low + 1;
  for (std::size_t step = 1; places[low].offset > offset && low > 0; step *= 2) {
    high = low;
    low -= std::min(step, low);
  }
  for (std::size_t step = 1; high < count && places[high].offset <= offset; step *= 2) {
    low = high;
    high += std::min(step, count - high);
  }
  while (high - low > 1) {
    const std::size_t middle = std::midpoint(low, high);
    (places[middle].offset <= offset ? low : high) = middle;
  }
  return low;
}

}  // namespace

void BlockOrder::put(const Place& place) {
  if (chunks_.empty()) {
    chunks_.push_back({place.offset, {place}});
    ++size_;
    return;
  }
  std::size_t index = index_until(chunks_, place.offset);
  if (chunks_[index].places.size() == kMostInChunk) {
    split(index);
    if (place.offset >= chunks_[index + 1].offset) ++index;
  }
  Chunk& chunk = chunks_[index];
  const auto at = std::ranges::lower_bound(chunk.places, place.offset, {}, &Place::offset);
  if (at != chunk.places.end() && at->offset == place.offset) {
    at->block = place.block;
    return;
  }
  chunk.places.insert(at, place);
  chunk.offset = std::min(chunk.offset, place.offset);
  ++size_;
}

void BlockOrder::split(std::size_t index) {
  const auto at = chunks_.begin() + static_cast<std::ptrdiff_t>(index);
  const auto middle = at->places.begin() + kMostInChunk / 2;
  const auto upper = chunks_.insert(at + 1, {middle->offset, {middle, at->places.end()}});
  std::vector<Place>& lower = std::prev(upper)->places;
  lower.resize(kMostInChunk / 2);
}

std::optional<BlockOrder::Place> BlockOrder::last_until(std::uint64_t offset) const noexcept {
  if (chunks_.empty()) return std::nullopt;
  std::size_t index = index_until(chunks_, offset);
  const std::vector<Place>* places = &chunks_[index].places;
  std::size_t inner =
      index + 1 == chunks_.size()
          ? index_until(*places, offset)
          : index_near(*places, offset, chunks_[index].offset, chunks_[index + 1].offset);
  if ((*places)[inner].offset > offset) {  // all of this chunk begin later
    if (index == 0) return std::nullopt;
    places = &chunks_[--index].places;
    inner = places->size() - 1;
  }
  return (*places)[inner];
}

void BlockOrder::erase(std::uint64_t offset) noexcept {
  if (chunks_.empty()) return;
  const auto chunk = chunks_.begin() + static_cast<std::ptrdiff_t>(index_until(chunks_, offset));
  const auto at = std::ranges::lower_bound(chunk->places, offset, {}, &Place::offset);
  if (at == chunk->places.end() || at->offset != offset) return;
  chunk->places.erase(at);
  --size_;
  if (chunk->places.empty()) chunks_.erase(chunk);
}

}  // namespace shmtensor
