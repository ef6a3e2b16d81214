// Host memory of an arena that the driver has pinned, so that devices copy from it by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "arena/arena.hpp"
#include "arena/extent_table.hpp"
#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// Extents of an arena, mapped once more and pinned for all devices. Blocks in them that were not
/// pinned are used at other addresses, so this process releases them whatever the devices do.
/// Threads: constant after construction.
class PinnedExtents {
 public:
  using Run = ExtentTable::Run;

  /// Throws CudaError if the driver refuses, and the errors of mapping.
  PinnedExtents(const Gpu& gpu, const Segment& segment, Run run);
  /// Waits for the devices. In a forked child, and after the driver has shut down, nothing is
  /// unpinned.
  ~PinnedExtents();
  PinnedExtents(const PinnedExtents&) = delete;
  PinnedExtents& operator=(const PinnedExtents&) = delete;

  [[nodiscard]] const Run& run() const noexcept { return run_; }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept {
    return memory_.data() + (offset - run_.begin * ExtentTable::kExtent);
  }

 private:
  const Gpu& gpu_;
  Run run_;
  shmtensor::Mapping memory_;
};

/// A block's bytes in pinned extents, which it keeps pinned.
struct PinnedBlock {
  std::shared_ptr<const PinnedExtents> extents;
  std::byte* data = nullptr;
};

/// Pins the bytes of a block that this process holds. Nothing if the process uses no device, if the
/// driver is older than CUDA 12.5, or if the arena's owner has ended: the manager may have
/// discarded pages around the block. Throws CudaError if the driver refuses, and the errors of
/// mapping.
[[nodiscard]] PinnedBlock pin(Arena& arena, BlockNumber block);

}  // namespace shmtensor::cuda
