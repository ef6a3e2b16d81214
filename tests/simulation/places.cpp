#include "simulation/places.hpp"

#include <algorithm>
#include <cstdio>

namespace shmtensor::simulation {

Places& Places::get() {
  static Places* const one = new Places;
  return *one;
}

void Places::note_mapped(const void* data, std::size_t size, std::uint64_t inode,
                         std::uint64_t offset) {
  auto file = std::ranges::find(files_, inode);
  if (file == files_.end()) file = files_.insert(file, inode);
  const auto number = static_cast<std::uint64_t>(file - files_.begin()) + 1;
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto at = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin);
  ranges_.insert(at, {begin, begin + size, number << 48 | offset});
}

void Places::note_unmapped(const void* data, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(data);
  std::erase_if(ranges_, [&](const Range& range) {
    return range.begin >= begin && range.end <= begin + size;
  });
  last_ = 0;
}

Place Places::of(const void* address) noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  const auto in = [at](const Range& range) { return at >= range.begin && at < range.end; };
  if (last_ >= ranges_.size() || !in(ranges_[last_])) {
    const auto above = std::ranges::upper_bound(ranges_, at, {}, &Range::begin);
    if (above == ranges_.begin() || !in(*(above - 1))) {
      return reinterpret_cast<std::uintptr_t>(at);
    }
    last_ = static_cast<std::size_t>(above - 1 - ranges_.begin());
  }
  const Range& range = ranges_[last_];
  return range.first + static_cast<std::uint64_t>(at - range.begin);
}

std::string Places::text_of(Place place) const {
  if (const auto named = names_.find(place); named != names_.end()) return named->second;
  char text[40];
  if (place >> 48 != 0) {
    std::snprintf(text, sizeof text, "file %u + 0x%llx", static_cast<unsigned>(place >> 48),
                  static_cast<unsigned long long>(place & ~(~0ULL << 48)));
  } else {
    std::snprintf(text, sizeof text, "private 0x%llx", static_cast<unsigned long long>(place));
  }
  return text;
}

}  // namespace shmtensor::simulation
