#include "cuda/pinned_data.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/report.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

constexpr std::uint64_t kExtent = ExtentTable::kExtent;
constexpr std::size_t kMost = 32;  // of an arena's runs

// The extents of an arena that serve blocks which are pinned from now on.
class PinnedData {
 public:
  using Run = PinnedExtents::Run;

  PinnedBlock pin(const Gpu& gpu, const Segment& segment, std::uint64_t offset,
                  std::uint64_t size) {
    forget_discarded(segment);
    const Run needed = ExtentTable::touched_by(offset, size);
    const auto found = std::ranges::find_if(all_, [&](const auto& one) {
      return one->run().begin <= needed.begin && needed.end <= one->run().end;
    });
    const auto extents = found != all_.end() ? *found : add(gpu, segment, needed);
    return {extents, extents->at(offset)};
  }

 private:
  // A driver goes on using pages that were discarded, while new ones take their place in the file.
  // A block's own pages were made before this process received the block, hence before this look;
  // so the extents of blocks that are pinned already stay valid for them.
  void forget_discarded(const Segment& segment) {
    const std::uint64_t discards = segment.header().discards.load();
    if (std::exchange(discards_, discards) != discards) all_.clear();
  }

  // Each entry has a mapping of its own, so entries may overlap. To unpin one waits for the
  // devices, so that is done rarely.
  std::shared_ptr<const PinnedExtents> add(const Gpu& gpu, const Segment& segment, Run run) {
    if (all_.size() == kMost) merge(gpu, segment);
    all_.push_back(std::make_shared<PinnedExtents>(gpu, segment, run));
    return all_.back();
  }

  // A copy fails that leaves what was pinned by one call. So blocks of many sizes, at many offsets,
  // need long runs.
  void merge(const Gpu& gpu, const Segment& segment) {
    std::vector<Run> runs;
    runs.reserve(all_.size());
    for (const auto& one : all_) runs.push_back(one->run());
    std::ranges::sort(runs, {}, &Run::begin);
    std::vector<Run> merged;
    for (const Run& run : runs) {
      if (merged.empty() || merged.back().end < run.begin) {
        merged.push_back(run);
      } else {
        merged.back().end = std::max(merged.back().end, run.end);
      }
    }
    all_.clear();
    if (merged.size() > kMost / 2) return;
    for (const Run& run : merged) {
      all_.push_back(std::make_shared<PinnedExtents>(gpu, segment, run));
    }
  }

  std::uint64_t discards_ = 0;
  std::vector<std::shared_ptr<const PinnedExtents>> all_;
};

Mutex g_companions;  // of all arenas

// Any device serves, since memory is pinned for all.
const Gpu* used_gpu() {
  const Gpu* found = nullptr;
  if (!Driver::get().has_pinning()) return found;
  for_each_used([&found](int number) {
    if (found == nullptr) found = &Gpu::get(number);
  });
  return found;
}

}  // namespace

PinnedExtents::PinnedExtents(const Gpu& gpu, const Segment& segment, Run run)
    : gpu_(gpu),
      run_(run),
      memory_(shmtensor::Mapping::of_file(*segment.file(),
                                          segment.layout().data() + run.begin * kExtent,
                                          run.size() * kExtent, Access::read_write)) {
  const Current current(gpu);
  gpu.driver().check(
      gpu.driver().cuMemHostRegister_v2(memory_.data(), memory_.size(), kRegisterPortable),
      "pin " + std::to_string(memory_.size()) + " bytes of shared memory");
}

PinnedExtents::~PinnedExtents() {
  const Driver* driver = Driver::usable();
  if (driver == nullptr) return;
  try {
    const Current current(gpu_);
    driver->check(driver->cuMemHostUnregister(memory_.data()), "unpin shared memory");
  } catch (const CudaError& error) {
    if (!has_stopped(error.code())) report(error.what());
  }
}

PinnedBlock pin(Arena& arena, BlockNumber block) {
  const Segment& segment = arena.segment();
  const Gpu* const gpu = used_gpu();
  if (gpu == nullptr || segment.header().orphaned.load() != 0) return {};
  const std::uint64_t offset = segment.record(block).offset.load();
  const std::uint64_t size = arena.bytes(block, Access::read_write).size();
  if (!fits(offset, size, segment.layout().data_reserve)) return {};
  const LockGuard guard(g_companions);
  std::shared_ptr<void>& companion = arena.companion();
  if (companion == nullptr) companion = std::make_shared<PinnedData>();
  return static_cast<PinnedData*>(companion.get())->pin(*gpu, segment, offset, size);
}

}  // namespace shmtensor::cuda
