// Virtual memory of another library, shared where it lies: by the descriptors of its chunks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cuda/device_data.hpp"

namespace shmtensor::cuda {

/// One chunk, as a block says it, behind the Description.
struct Piece {
  std::uint64_t size;
  std::uint32_t chunk;  ///< its number in the arena, under which the manager has its descriptor
  std::uint32_t reserved;
};
static_assert(sizeof(Piece) == 16);

/// The chunks that this process shares so. A chunk is exported once, however many arrays lie in it.
/// While it is shared its maker keeps it mapped, so its address names it. Its number may serve
/// another one afterwards: who had it mapped has let go.
/// Not thread-safe.
class SharedPieces {
 public:
  struct Range {
    DevicePtr base = 0;  ///< of the first chunk
    std::uint64_t size = 0;
    std::vector<Piece> pieces;
  };

  /// One reference to each chunk that [start, start + size) touches. Throws CudaError, OutOfMemory;
  /// nothing is shared then that was not before.
  [[nodiscard]] Range share(const Gpu& gpu, const Segment& segment, ChunkKeeper& keeper,
                            DevicePtr start, std::uint64_t size);
  void drop(const Segment& segment, ChunkKeeper& keeper, std::span<const Piece> pieces) noexcept;

 private:
  struct Shared {
    std::uint32_t chunk = 0;
    std::uint64_t users = 0;
    Fd descriptor;  ///< for a manager that takes over from one that was killed
  };

  Shared& shared_at(const Gpu& gpu, const Segment& segment, ChunkKeeper& keeper, DevicePtr base,
                    std::uint64_t size);

  std::map<DevicePtr, Shared> shared_;
};

/// How many chunks an array touches. Throws CudaError when it reaches over their end.
[[nodiscard]] std::size_t count_pieces(const Gpu& gpu, DevicePtr start, std::uint64_t size);

}  // namespace shmtensor::cuda
