#include "arena/extent_table.hpp"

#include <algorithm>
#include <exception>

#include "arena/shortage.hpp"
#include "base/align.hpp"
#include "os/clock.hpp"
#include "os/page_reservation.hpp"

namespace shmtensor {
namespace {

// Processes that look for memory simultaneously find the same, and one that is preempted then takes
// what others have taken meanwhile. So each takes a small part of it in a step and looks again:
// what several take beyond the memory fits into the reserve of available_memory().
constexpr std::uint64_t kSteps = 64;
constexpr std::uint64_t kSmallestStep = kMiB / 2;

std::uint32_t now() noexcept { return static_cast<std::uint32_t>(coarse_milliseconds()); }

}  // namespace

std::uint64_t ExtentTable::missing(Run run) const noexcept {
  const auto begin = extents_.begin();
  return static_cast<std::uint64_t>(std::count_if(
      begin + static_cast<std::ptrdiff_t>(run.begin), begin + static_cast<std::ptrdiff_t>(run.end),
      [](const Extent& extent) { return extent.pages != Pages::present; }));
}

void ExtentTable::touch(Run run) noexcept {
  const std::uint32_t time = now();
  for (std::uint64_t i = run.begin; i < run.end; ++i) extents_[i].used_at = time;
}

bool ExtentTable::is_idle(std::uint64_t extent, std::uint64_t milliseconds) const noexcept {
  return extents_[extent].pages == Pages::present &&
         now() - extents_[extent].used_at >= milliseconds;
}

void ExtentTable::mark(Run run, Pages pages) noexcept {
  const Extent marked{now(), pages};
  for (std::uint64_t i = run.begin; i < run.end; ++i) extents_[i] = marked;
}

std::string ExtentTable::make_present(YieldingLock& lock, Run run, std::uint64_t needed) {
  std::string why;
  mark(run, Pages::changing);
  try {
    lock.unlocked([&] { why = reserve(run, needed); });
  } catch (...) {
    mark(run, Pages::absent);
    throw;
  }
  mark(run, why.empty() ? Pages::present : Pages::absent);
  return why;
}

// Called without the lock.
std::string ExtentTable::reserve(Run run, std::uint64_t needed) {
  const std::uint64_t offset = run.begin * kExtent;
  const std::uint64_t size = run.size() * kExtent;
  const AvailableMemory available = available_memory();
  std::string why = shortage_of(std::max(size, needed), *budget_, available);
  if (!why.empty()) return why;
  const Segment::File file = segment_.file();
  segment_.map_all(Access::read_write);
  if (!budget_->try_reserve(size)) return over_limit(*budget_);  // another thread was faster
  try {
    why = create(*file, offset, size, available);
    if (why.empty()) {
      reserved_ += size;
      // A window is not worth its address space only to be populated.
      std::byte* const data = segment_.data_if_mapped(Access::read_write, offset, size);
      if (data != nullptr) populate(data, size);
      return {};
    }
  } catch (...) {
    budget_->release(size);
    throw;
  }
  budget_->release(size);
  discard_pages(*file, segment_.layout().data() + offset, size);
  return why;
}

// Returns the reason if memory is short; some of the pages may exist in that case.
std::string ExtentTable::create(const Fd& file, std::uint64_t offset, std::uint64_t size,
                                AvailableMemory available) const {
  for (std::uint64_t left = size;;) {
    const std::uint64_t part = align_down(available.bytes / kSteps, kSmallestStep);
    const std::uint64_t step = std::min(std::max(part, kSmallestStep), left);
    if (!reserve_pages(file, segment_.layout().data() + offset + size - left, step)) {
      return refused_by_kernel(segment_.strategy());
    }
    left -= step;
    if (left == 0) return {};
    available = available_memory();
    if (std::string why = shortage_of(left, available); !why.empty()) return why;
  }
}

bool ExtentTable::make_absent(YieldingLock& lock, Run run) noexcept {
  const std::uint64_t size = run.size() * kExtent;
  bool freed = false;
  mark(run, Pages::changing);
  lock.unlocked([&] {
    try {
      const Segment::File file = segment_.file();
      segment_.header().discards.fetch_add(1);
      discard_pages(*file, segment_.layout().data() + run.begin * kExtent, size);
      freed = true;
    } catch (const std::exception&) {
      // no descriptor or no memory is available
    }
  });
  mark(run, freed ? Pages::absent : Pages::present);
  if (!freed) return false;
  reserved_ -= size;
  budget_->release(size);
  return true;
}

}  // namespace shmtensor
