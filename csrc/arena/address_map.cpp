#include "arena/address_map.hpp"

#include <algorithm>
#include <iterator>

namespace shmtensor {

AddressRange::AddressRange(const std::byte* begin, std::uint64_t size, Arena& arena,
                           std::uint64_t offset)
    : begin_(begin) {
  AddressMap::get().add({begin, size, &arena, offset, nullptr});
}

AddressRange::AddressRange(const std::byte* begin, std::uint64_t size, void* object)
    : begin_(begin) {
  AddressMap::get().add({begin, size, nullptr, 0, object});
}

AddressRange::~AddressRange() {
  if (begin_ != nullptr) AddressMap::get().remove(begin_);
}

AddressMap& AddressMap::get() {
  static AddressMap* const map = new AddressMap;
  return *map;
}

void AddressMap::add(const Range& range) {
  const LockGuard guard(lock_);
  ranges_.insert(std::ranges::upper_bound(ranges_, range.begin, {}, &Range::begin), range);
}

void AddressMap::remove(const std::byte* begin) noexcept {
  const LockGuard guard(lock_);
  std::erase_if(ranges_, [begin](const Range& range) { return range.begin == begin; });
}

void AddressMap::forget(const Arena& arena) noexcept {
  std::erase_if(ranges_, [&arena](const Range& range) { return range.arena == &arena; });
}

const AddressMap::Range* AddressMap::range_of(const std::byte* address) const noexcept {
  const auto after = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
  if (after == ranges_.begin()) return nullptr;
  const Range& range = *std::prev(after);
  return static_cast<std::uint64_t>(address - range.begin) < range.size ? &range : nullptr;
}

}  // namespace shmtensor
