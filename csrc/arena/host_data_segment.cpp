#include "arena/host_data_segment.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kLargestStep = 8 * kMiB;

// The pages that are created or freed in one step take about 10 milliseconds. Other threads that
// need an extent at the edge of a large block wait for that time.
constexpr std::uint64_t kChunk = 16 * kMiB / HostDataSegment::kExtent;
constexpr std::uint64_t kWholePages = 64 * kKiB;  // larger blocks have pages of their own

std::uint32_t now() noexcept { return static_cast<std::uint32_t>(coarse_milliseconds()); }

std::string in_mib(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
}

std::string over_limit(const Budget& budget) {
  return "this process has reserved " + in_mib(budget.reserved()) + " of the " +
         in_mib(budget.limit()) +
         " that shmtensor.set_limit or SHMTENSOR_MAX_BYTES allows; free tensors or raise it";
}

}  // namespace

std::string shortage_of(std::uint64_t size, const Budget& budget) {
  const std::uint64_t limit = budget.limit();
  if (size > limit || budget.reserved() > limit - size) return over_limit(budget);
  const AvailableMemory available = available_memory();
  if (size <= available.bytes) return {};
  return in_mib(available.bytes) + " are available (" + available.limited_by +
         "); free memory or raise that limit";
}

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
  const std::uint64_t last = (offset + size - 1) / kExtent;
  const std::uint32_t time = now();
  for (std::uint64_t i = offset / kExtent; i <= last; ++i) extents_[i].used_at = time;
}

bool HostDataSegment::is_backed(std::uint64_t offset, std::uint64_t size) const noexcept {
  const std::uint64_t last = (offset + size - 1) / kExtent;
  for (std::uint64_t i = offset / kExtent; i <= last; ++i) {
    if (extents_[i].pages != Pages::present) return false;
  }
  return true;
}

std::uint64_t HostDataSegment::missing(Run run) const noexcept {
  const auto begin = extents_.begin();
  return static_cast<std::uint64_t>(std::count_if(
      begin + static_cast<std::ptrdiff_t>(run.begin), begin + static_cast<std::ptrdiff_t>(run.end),
      [](const Extent& extent) { return extent.pages != Pages::present; }));
}

void HostDataSegment::mark(Run run, Pages pages) noexcept {
  const Extent marked{now(), pages};
  for (std::uint64_t i = run.begin; i < run.end; ++i) extents_[i] = marked;
}

// The range is allocated, so no other thread frees its pages. Its first and last extent may be
// shared with other ranges, whose threads may be creating their pages.
bool HostDataSegment::back(YieldingLock& lock, std::uint64_t offset, std::uint64_t size) {
  const Run all{offset / kExtent, (offset + size - 1) / kExtent + 1};
  std::vector<Run> made;
  for (std::uint64_t i = all.begin; i < all.end;) {
    if (extents_[i].pages == Pages::present) {
      ++i;
      continue;
    }
    if (extents_[i].pages == Pages::changing) {
      lock.wait();
      continue;
    }
    Run run{i, i + 1};
    while (run.end < std::min(all.end, i + kChunk) && extents_[run.end].pages == Pages::absent) {
      ++run.end;
    }
    made.reserve(made.size() + 1);
    if (!make_present(lock, run, missing({i, all.end}) * kExtent)) {
      // Other threads may need the pages that this call has created, and use the extents at the
      // edges.
      std::string why = std::move(short_of_);
      const Run own{align_up(offset, kExtent) / kExtent, (offset + size) / kExtent};
      for (Run back : made) {
        back = {std::max(back.begin, own.begin), std::min(back.end, own.end)};
        if (back.begin < back.end) static_cast<void>(make_absent(lock, back));
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
    return extent < added.end && (extents_[extent].pages == Pages::absent) == absent;
  };
  while (is(run.begin, false)) ++run.begin;
  run.end = run.begin;
  while (is(run.end, true) && run.end - run.begin < kLargestStep / kExtent) ++run.end;
  if (run.begin < run.end) static_cast<void>(make_present(lock, run, 0));
}

bool HostDataSegment::make_present(YieldingLock& lock, Run run, std::uint64_t needed) {
  std::string why;
  mark(run, Pages::changing);
  try {
    lock.unlocked([&] { why = reserve(run, needed); });
  } catch (...) {
    mark(run, Pages::absent);
    throw;
  }
  mark(run, why.empty() ? Pages::present : Pages::absent);
  if (why.empty() && !in_known_file(run.end * kExtent)) in_file_.store(run.end * kExtent);
  short_of_ = std::move(why);
  return short_of_.empty();
}

// Called without the lock. Returns the reason if memory is short for this run or for all that is
// `needed`.
std::string HostDataSegment::reserve(Run run, std::uint64_t needed) {
  const std::uint64_t offset = run.begin * kExtent;
  const std::uint64_t size = (run.end - run.begin) * kExtent;
  std::string why = shortage_of(std::max(size, needed), *budget_);
  if (!why.empty()) return why;
  const Segment::File file = segment_.file();
  segment_.map_all(Access::read_write);
  if (!budget_->try_reserve(size)) return over_limit(*budget_);  // another thread was faster
  try {
    if (reserve_pages(*file, segment_.layout().data() + offset, size)) {
      reserved_ += size;
      // A window is not worth its address space only to be populated.
      std::byte* const data = segment_.data_if_mapped(Access::read_write, offset, size);
      if (data != nullptr) populate(data, size, Access::read_write);
      return {};
    }
  } catch (...) {
    budget_->release(size);
    throw;
  }
  budget_->release(size);
  discard_pages(*file, segment_.layout().data() + offset, size);
  if (segment_.strategy() != Strategy::file_system) {
    return "the kernel has no more shared memory; free tensors, or check the limits of the memory "
           "cgroup, vm.overcommit_memory and RLIMIT_FSIZE";
  }
  const ShmSpace space = shm_space();
  return "/dev/shm has " + in_mib(space.free) + " free of " + in_mib(space.total) +
         "; enlarge it (docker run --shm-size, mount -o remount,size=), free tensors, or use the "
         "file_descriptor sharing strategy, which it does not limit";
}

// Returns false if no descriptor or no memory is available. The pages stay in that case.
bool HostDataSegment::make_absent(YieldingLock& lock, Run run) noexcept {
  const std::uint64_t size = (run.end - run.begin) * kExtent;
  bool freed = false;
  mark(run, Pages::changing);
  lock.unlocked([&] {
    try {
      const Segment::File file = segment_.file();
      discard_pages(*file, segment_.layout().data() + run.begin * kExtent, size);
      freed = true;
    } catch (const std::exception&) {
      // see the comment above
    }
  });
  mark(run, freed ? Pages::absent : Pages::present);
  if (!freed) return false;
  reserved_ -= size;
  budget_->release(size);
  return true;
}

// Begins at the end of each free range, since allocations are made from its beginning.
bool HostDataSegment::trim(YieldingLock& lock, RangeAllocator& space,
                           std::uint64_t idle_milliseconds, std::uint64_t at_most) noexcept {
  for (std::uint64_t left = at_most / kExtent;;) {
    const auto idle = [&, time = now()](const Extent& extent) {
      return extent.pages == Pages::present && time - extent.used_at >= idle_milliseconds;
    };
    std::array<Run, kRuns> runs;
    std::size_t count = 0;
    std::uint64_t at_once = 2 * kChunk;
    bool more = false;
    space.for_each_free(kExtent, [&](std::uint64_t offset, std::uint64_t size) {
      const std::uint64_t first = align_up(offset, kExtent) / kExtent;
      for (std::uint64_t end = (offset + size) / kExtent; end > first; --end) {
        if (!idle(extents_[end - 1])) continue;
        if (left == 0 || at_once == 0 || count == kRuns) {
          more = true;
          return;
        }
        Run& run = runs[count++] = {end - 1, end};
        const std::uint64_t longest = std::min({left, at_once, kChunk});
        while (run.begin > first && run.end - run.begin < longest &&
               idle(extents_[run.begin - 1])) {
          --run.begin;
        }
        mark(run, Pages::changing);
        left -= run.end - run.begin;
        at_once -= run.end - run.begin;
        end = run.begin + 1;
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (make_absent(lock, runs[i])) continue;
      for (++i; i < count; ++i) mark(runs[i], Pages::present);
      return false;
    }
    if (!more || left == 0) return more;
  }
}

}  // namespace shmtensor
