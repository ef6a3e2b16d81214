#include "arena/host_data_segment.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kLargestStep = 8 * kMiB;

// The pages that are created or freed in one step take about 10 milliseconds. Other threads that
// need an extent at the edge of a large block wait for that time.
constexpr std::uint64_t kChunk = 16 * kMiB / HostDataSegment::kExtent;
constexpr std::size_t kRuns = 64;                 // that a trim frees before it searches for others
constexpr std::uint64_t kWholePages = 64 * kKiB;  // larger blocks have pages of their own

}  // namespace

bool HostDataSegment::inside(std::uint64_t offset, std::uint64_t size) const noexcept {
  const std::uint64_t limit = std::min(segment_.header().committed.load(std::memory_order_acquire),
                                       segment_.layout().data_reserve);
  return fits(offset, size, limit);
}

std::byte* HostDataSegment::at(std::uint64_t offset, std::uint64_t size, Access access) {
  bool there = inside(offset, size);
  if (there && !in_known_file(offset + size)) {
    in_file_.store(segment_.data_in_file(), std::memory_order_relaxed);
    there = in_known_file(offset + size);
  }
  if (!there) {
    throw SessionError("a block of arena " + std::to_string(segment_.number()) +
                       " refers to memory outside of the arena");
  }
  return segment_.data(access, offset, size);
}

std::byte* HostDataSegment::at_once(std::uint64_t offset, std::uint64_t size,
                                    Access access) noexcept {
  if (!inside(offset, size) || !in_known_file(offset + size)) return nullptr;
  return segment_.data_if_mapped(access, offset, size);
}

std::uint64_t HostDataSegment::alignment(std::uint64_t size) const noexcept {
  return size < kWholePages ? RangeAllocator::kUnit : page_size();
}

std::uint64_t HostDataSegment::rounded(std::uint64_t size) const noexcept {
  return size < kWholePages ? size : align_up(size, page_size());
}

void HostDataSegment::touch(std::uint64_t offset, std::uint64_t size) noexcept {
  extents_.touch(ExtentTable::touched_by(offset, size));
}

bool HostDataSegment::is_backed(std::uint64_t offset, std::uint64_t size) const noexcept {
  return extents_.missing(ExtentTable::touched_by(offset, size)) == 0;
}

// The range is allocated, so no other thread frees its pages. Its first and last extent may be
// shared with other ranges, whose threads may be creating their pages.
bool HostDataSegment::back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size) {
  const Run all = ExtentTable::touched_by(offset, size);
  std::vector<Run> made;
  for (std::uint64_t i = all.begin; i < all.end;) {
    if (extents_.pages(i) == Pages::present) {
      ++i;
      continue;
    }
    if (extents_.pages(i) == Pages::changing) {
      lock.wait();
      continue;
    }
    Run run{i, i + 1};
    while (run.end < std::min(all.end, i + kChunk) && extents_.pages(run.end) == Pages::absent) {
      ++run.end;
    }
    made.reserve(made.size() + 1);
    if (!make_present(lock, run, extents_.missing({i, all.end}) * kExtent)) {
      // Other threads may need the pages that this call has created, and use the extents at the
      // edges.
      std::string why = std::move(short_of_);
      const Run own = ExtentTable::contained_in(offset, size);
      for (Run back : made) {
        back = {std::max(back.begin, own.begin), std::min(back.end, own.end)};
        if (back.begin < back.end) static_cast<void>(extents_.make_absent(lock, back));
      }
      short_of_ = std::move(why);
      return false;
    }
    made.push_back(run);
    i = run.end;
  }
  return true;
}

// Reserves address space, which needs no memory. Free space at the end counts.
bool HostDataSegment::grow(RangeAllocator& space, std::uint64_t size) {
  const std::uint64_t committed = space.total();
  const std::uint64_t reserve_left = segment_.layout().data_reserve - committed;
  const std::uint64_t wanted = align_up(size + page_size(), kExtent);
  const std::uint64_t needed = wanted - align_down(std::min(space.free_at_end(), wanted), kExtent);
  clear_shortage();
  if (needed > reserve_left) return false;
  // Doubles the size, up to a step that takes a few milliseconds.
  const std::uint64_t step =
      std::min(std::max(needed, std::clamp(committed, kExtent, kLargestStep)), reserve_left);
  // Operations that may throw come before any change.
  space.prepare();
  extents_.resize((committed + step) / kExtent);
  ahead_ = {committed / kExtent, (committed + step) / kExtent};
  segment_.header().committed.store(committed + step, std::memory_order_release);
  space.extend(step);
  return true;
}

void HostDataSegment::back_ahead(YieldingLock& lock) {
  const Run added = std::exchange(ahead_, {});
  Run run{added.begin, added.begin};
  const auto is = [&](std::uint64_t extent, bool absent) {
    return extent < added.end && (extents_.pages(extent) == Pages::absent) == absent;
  };
  while (is(run.begin, false)) ++run.begin;
  run.end = run.begin;
  while (is(run.end, true) && run.size() < kLargestStep / kExtent) ++run.end;
  if (run.begin < run.end) static_cast<void>(make_present(lock, run, 0));
}

bool HostDataSegment::make_present(YieldingLock& lock, Run run, std::uint64_t needed) {
  short_of_ = extents_.make_present(lock, run, needed);
  if (!short_of_.empty()) return false;
  if (!in_known_file(run.end * kExtent)) in_file_.store(run.end * kExtent);
  return true;
}

// Begins at the end of each free range, since allocations are made from its beginning.
bool HostDataSegment::trim(YieldingLock& lock, RangeAllocator& space,
                           std::uint64_t idle_milliseconds, std::uint64_t at_most) noexcept {
  for (std::uint64_t left = at_most / kExtent;;) {
    const auto idle = [&](std::uint64_t extent) {
      return extents_.is_idle(extent, idle_milliseconds);
    };
    std::array<Run, kRuns> runs;
    std::size_t count = 0;
    std::uint64_t at_once = 2 * kChunk;
    bool more = false;
    space.for_each_free(kExtent, [&](std::uint64_t offset, std::uint64_t size) {
      const auto [first, last] = ExtentTable::contained_in(offset, size);
      for (std::uint64_t end = last; end > first; --end) {
        if (!idle(end - 1)) continue;
        if (left == 0 || at_once == 0 || count == kRuns) {
          more = true;
          return;
        }
        Run& run = runs[count++] = {end - 1, end};
        const std::uint64_t longest = std::min({left, at_once, kChunk});
        while (run.begin > first && run.size() < longest && idle(run.begin - 1)) --run.begin;
        extents_.mark(run, Pages::changing);
        left -= run.size();
        at_once -= run.size();
        end = run.begin + 1;
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (extents_.make_absent(lock, runs[i])) continue;
      for (++i; i < count; ++i) extents_.mark(runs[i], Pages::present);
      return false;
    }
    if (!more || left == 0) return more;
  }
}

}  // namespace shmtensor
