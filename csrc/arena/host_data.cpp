#include "arena/host_data.hpp"

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.hpp"
#include "os/clock.hpp"
#include "os/file_space.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kLargestStep = 8 * kMiB;
constexpr std::uint64_t kWholePages = 64 * kKiB;  // blocks from here on get pages of their own

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

bool HostData::inside(std::uint64_t offset, std::uint64_t size) const noexcept {
  const std::uint64_t limit = std::min(segment_.header().committed.load(std::memory_order_acquire),
                                       segment_.geometry().data_reserve);
  return fits(offset, size, limit);
}

std::byte* HostData::at(std::uint64_t offset, std::uint64_t size, Access access) {
  if (!inside(offset, size)) {
    throw SessionError("a block of arena " + std::to_string(segment_.number()) +
                       " points outside of the arena");
  }
  return segment_.data(access) + offset;
}

std::byte* HostData::at_once(std::uint64_t offset, std::uint64_t size, Access access) noexcept {
  std::byte* const start = segment_.data_if_mapped(access);
  return start != nullptr && inside(offset, size) ? start + offset : nullptr;
}

std::uint64_t HostData::alignment(std::uint64_t size) const noexcept {
  return size < kWholePages ? Space::kUnit : page_size();
}

std::uint64_t HostData::rounded(std::uint64_t size) const noexcept {
  return size < kWholePages ? size : align_up(size, page_size());
}

void HostData::touch(std::uint64_t offset, std::uint64_t size) noexcept {
  const std::uint64_t last = (offset + size - 1) / kExtent;
  const std::uint32_t time = now();
  for (std::uint64_t i = offset / kExtent; i <= last; ++i) extents_[i].used_at = time;
}

bool HostData::is_backed(std::uint64_t offset, std::uint64_t size) const noexcept {
  const std::uint64_t last = (offset + size - 1) / kExtent;
  return std::all_of(extents_.begin() + static_cast<std::ptrdiff_t>(offset / kExtent),
                     extents_.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                     [](const Extent& extent) { return extent.backed; });
}

bool HostData::back(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t last = (offset + size - 1) / kExtent;
  for (std::uint64_t i = offset / kExtent; i <= last; ++i) {
    if (extents_[i].backed) continue;
    std::uint64_t end = i + 1;
    while (end <= last && !extents_[end].backed) ++end;
    if (!reserve(i * kExtent, (end - i) * kExtent)) return false;
    for (; i < end; ++i) extents_[i].backed = true;
  }
  return true;
}

bool HostData::grow(Space& space, std::uint64_t size) {
  const std::uint64_t committed = space.total();
  const std::uint64_t reserve_left = segment_.geometry().data_reserve - committed;
  const std::uint64_t needed = align_up(size + page_size(), kExtent);
  if (needed > reserve_left) return false;
  // Double, up to a step that takes a few milliseconds; what is needed, if there is no more.
  const std::uint64_t wished =
      std::min(std::max(needed, std::clamp(committed, kExtent, kLargestStep)), reserve_left);
  // What may throw comes before anything is taken.
  space.prepare();
  extents_.reserve((committed + wished) / kExtent);
  std::uint64_t step = wished;
  if (!reserve(committed, step)) {
    step = needed;
    if (wished == needed || !reserve(committed, step)) return false;
  }
  extents_.resize((committed + step) / kExtent, {now(), true});
  segment_.header().committed.store(committed + step, std::memory_order_release);
  space.extend(step);
  return true;
}

bool HostData::reserve(std::uint64_t offset, std::uint64_t size) {
  const bool named = segment_.strategy() == Strategy::file_system;
  short_of_ = shortage_of(size, *budget_);
  if (!short_of_.empty()) return false;
  // What may throw comes before anything is taken.
  const Segment::File file = segment_.file();
  std::byte* const data = segment_.data(Access::read_write);
  if (!budget_->take(size)) {  // another thread was quicker
    short_of_ = over_limit(*budget_);
    return false;
  }
  try {
    if (reserve_pages(*file, segment_.geometry().data() + offset, size)) {
      reserved_ += size;
      populate(data + offset, size, Access::read_write);
      return true;
    }
  } catch (...) {
    budget_->give(size);
    throw;
  }
  budget_->give(size);
  discard_pages(*file, segment_.geometry().data() + offset, size);
  const ShmSpace space = shm_space();
  short_of_ = named ? "/dev/shm has " + in_mib(space.free) + " free of " + in_mib(space.total) +
                          "; enlarge it (docker run --shm-size, mount -o remount,size=), free "
                          "tensors, or use the file_descriptor sharing strategy, which it does "
                          "not limit"
                    : "the kernel gives no more shared memory; free tensors, or look at the memory "
                      "cgroup, vm.overcommit_memory and RLIMIT_FSIZE";
  return false;
}

bool HostData::trim(Space& space, std::uint64_t idle_milliseconds, std::uint64_t at_most) noexcept {
  const std::uint32_t time = now();
  const auto idle = [&](const Extent& extent) {
    return extent.backed && time - extent.used_at >= idle_milliseconds;
  };
  std::optional<Segment::File> file;
  std::uint64_t left = at_most / kExtent;
  bool more = false;
  space.for_each_free(kExtent, [&](std::uint64_t offset, std::uint64_t size) {
    const std::uint64_t last = (offset + size) / kExtent;
    for (std::uint64_t i = align_up(offset, kExtent) / kExtent; i < last; ++i) {
      if (!idle(extents_[i])) continue;
      if (left == 0) {
        more = true;
        return;
      }
      std::uint64_t end = i + 1;
      while (end < last && end - i < left && idle(extents_[end])) ++end;
      left -= end - i;
      try {
        if (!file) file.emplace(segment_.file());
      } catch (const std::exception&) {
        return;  // no descriptor is to be had, or no memory: the pages stay where they are
      }
      const std::uint64_t freed = (end - i) * kExtent;
      for (std::uint64_t gone = i; gone < end; ++gone) extents_[gone].backed = false;
      discard_pages(**file, segment_.geometry().data() + i * kExtent, freed);
      reserved_ -= freed;
      budget_->give(freed);
      i = end - 1;
    }
  });
  return more;
}

}  // namespace shmtensor
