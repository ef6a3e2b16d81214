// Data segments in device memory: chunks of virtual memory, exported as descriptors.
#pragma once

#include <array>
#include <memory>

#include "arena/address_range.hpp"
#include "arena/data_segment.hpp"
#include "arena/segment.hpp"
#include "base/atomic.hpp"
#include "cuda/memory.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {

/// Keeps the descriptors of chunks, so that a chunk outlives the process that allocated it. The
/// session's manager implements this interface, since this layer does not depend on sessions.
class ChunkKeeper {
 public:
  virtual ~ChunkKeeper() = default;
  virtual void keep(ArenaNumber arena, std::uint32_t chunk, std::uint64_t size,
                    const Fd& descriptor) = 0;
  /// Throws StaleHandle if no process has the chunk.
  [[nodiscard]] virtual Fd fetch(ArenaNumber arena, std::uint32_t chunk) = 0;
  virtual void drop(ArenaNumber arena, std::uint32_t chunk) = 0;
};

/// An offset consists of a chunk and an offset in the chunk, so no block spans two chunks, and each
/// chunk can be imported and freed separately. A chunk's number is used only once, so a mapping of
/// a number never becomes outdated.
///
/// Fork: a forked child cannot use device memory; it closes the descriptors and calls no driver.
class DeviceDataSegment final : public DataSegment {
 public:
  static constexpr std::uint64_t kSmallChunk = 64 * kMiB;
  static constexpr std::uint64_t kLargeChunk = 1024 * kMiB;  ///< unless a block needs a larger one
  static constexpr std::uint64_t kAlignment = 256;           ///< the alignment of cudaMalloc

  DeviceDataSegment(const Segment& segment, const Gpu& gpu, ChunkKeeper& keeper, bool owned);
  ~DeviceDataSegment() override;

  [[nodiscard]] const Gpu& gpu() const noexcept { return gpu_; }

  std::byte* at(std::uint64_t offset, std::uint64_t size, Access access) override;
  std::byte* at_once(std::uint64_t offset, std::uint64_t size, Access access) noexcept override;

  std::uint64_t alignment(std::uint64_t) const noexcept override { return kAlignment; }
  std::uint64_t rounded(std::uint64_t size) const noexcept override {
    return align_up(size, kAlignment);
  }
  bool is_backed(std::uint64_t, std::uint64_t) const noexcept override { return true; }
  bool back(YieldingLock&, std::uint64_t, std::uint64_t) override { return true; }
  bool grow(RangeAllocator& space, std::uint64_t size) override;
  void touch(std::uint64_t offset, std::uint64_t size) noexcept override;
  bool trim(YieldingLock&, RangeAllocator& space, std::uint64_t idle_milliseconds,
            std::uint64_t at_most) noexcept override;
  // Unmapping calls the driver, which may take long.
  bool trims_in_passing() const noexcept override { return false; }
  std::uint64_t reserved() const noexcept override { return reserved_.load(); }

  void drop_gone() noexcept override;
  void forget_in_child() noexcept override;
  int descriptor_count() const noexcept override;

  /// Calls `visit(chunk, size, descriptor)` for each chunk of which this process has a descriptor.
  template <typename Visit>
  void for_each_descriptor(Visit&& visit) const {
    for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
      const int number = descriptors_[chunk].load();
      const std::uint64_t size = segment_.chunk(chunk).size.load();
      if (number >= 0 && size != 0) visit(chunk, size, number);
    }
  }

 private:
  struct Chunk {
    PhysicalMemory memory;
    std::array<MappedMemory, 2> mapped;  // by Access
    std::array<AddressRange, 2> listed;  // the addresses of `mapped`, destroyed before it
  };

  [[nodiscard]] bool make_chunk(std::uint32_t number, std::uint64_t size);
  void publish(std::uint32_t number, Access access) REQUIRES(mutex_);
  void forget(std::uint32_t chunk) noexcept REQUIRES(mutex_);

  const Segment& segment_;
  const Gpu& gpu_;
  ChunkKeeper& keeper_;
  bool owned_;
  Mutex mutex_;
  std::array<std::unique_ptr<Chunk>, kMaxChunks> chunks_ GUARDED_BY(mutex_);
  // Read without the lock: the start of a chunk, by access; its mapped size, which the table may
  // not contain any more; its descriptor, -1 for none.
  std::array<std::array<Atomic<DevicePtr>, kMaxChunks>, 2> starts_{};
  std::array<Atomic<std::uint64_t>, kMaxChunks> sizes_{};
  std::array<Atomic<int>, kMaxChunks> descriptors_;
  // Protected by the arena's lock:
  std::uint32_t next_chunk_ = 0;
  std::array<std::uint32_t, kMaxChunks> used_at_{};
  Atomic<std::uint64_t> reserved_{0};
};

}  // namespace shmtensor::cuda
