// Zero-copy export of virtual memory that another library allocated, by the descriptors of its
// chunks.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cuda/device_data_segment.hpp"

namespace shmtensor::cuda {

/// One chunk, as stored in a block after the IpcDescriptor.
struct ExportedChunk {
  std::uint64_t size;
  std::uint32_t chunk;  ///< its number in the arena; the manager has its descriptor under this
                        ///< number
  std::uint32_t reserved;
};
static_assert(sizeof(ExportedChunk) == 16);

/// The chunks that this process exports. A chunk is exported once, for any number of arrays in it.
/// While it is exported, its owner keeps it mapped, so its address identifies it. Its number may be
/// used for another chunk after all importers have unmapped it and the manager has closed it.
/// Threads: one.
class ExportedChunks {
 public:
  struct Range {
    DevicePtr base = 0;  ///< of the first chunk
    std::uint64_t size = 0;
    std::vector<ExportedChunk> chunks;
  };

  /// Adds one reference to each chunk that [start, start + size) overlaps. Throws CudaError,
  /// OutOfMemory; no reference is added in that case.
  [[nodiscard]] Range share(const Gpu& gpu, const Segment& segment, ChunkKeeper& keeper,
                            DevicePtr start, std::uint64_t size);
  void drop(const Segment& segment, ChunkKeeper& keeper,
            std::span<const ExportedChunk> chunks) noexcept;

 private:
  struct Shared {
    std::uint32_t chunk = 0;
    std::uint64_t users = 0;
    Fd descriptor;  ///< for a manager that takes over after a manager was killed
  };

  [[nodiscard]] std::uint32_t unused_chunk() const;
  Shared& shared_at(const Gpu& gpu, const Segment& segment, ChunkKeeper& keeper, DevicePtr base,
                    std::uint64_t size);

  std::map<DevicePtr, Shared> shared_;
  std::bitset<kMaxChunks> taken_;  // not read from the table, which any process can write
};

/// Returns the number of chunks that an array overlaps. Throws CudaError if the array extends past
/// their end.
[[nodiscard]] std::size_t count_chunks(const Gpu& gpu, DevicePtr start, std::uint64_t size);

}  // namespace shmtensor::cuda
