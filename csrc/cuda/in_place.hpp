// Memory that a user owns, shared where it lies: by the driver's 64 bytes, or in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cuda/pieces.hpp"
#include "os/process.hpp"

namespace shmtensor::cuda {

/// What a block of an arena of Strategy::in_place holds; behind it come the pieces, if there are
/// any. Written once, by the arena's owner, before anybody else can know the block.
struct Description {
  std::uint64_t magic;
  IpcMemoryHandle handle;  ///< of the whole allocation; in pieces: zeros but for `name_pieces`
  Uuid device;
  std::uint64_t base_size;      ///< of the allocation
  std::uint64_t offset;         ///< of the bytes shared, in it
  std::uint64_t size;           ///< of the bytes shared
  std::uint64_t buffer_id;      ///< the driver's, never the same twice
  std::int32_t pid;             ///< of the owner
  std::uint32_t pieces;         ///< 0: `handle` opens it
  std::uint64_t start_time;     ///< of that process
  std::uint64_t pid_namespace;  ///< in which its pid means something
};
/// The bytes by which who has opened a range of pieces knows it again.
[[nodiscard]] IpcMemoryHandle name_pieces(ArenaNumber arena, const ProcessIdentity& owner,
                                          std::span<const Piece> pieces);
inline constexpr std::uint64_t kDescriptionMagic = 0x6563'616c'702d'6e69;  // "in-place"

/// An allocation of another process, open here. Closed with the last storage that uses it, and
/// before that storage lets go of its block: so the owner never frees what is open elsewhere.
/// Threads: all members may be called at the same time.
class Opened {
 public:
  Opened(const Gpu& gpu, DevicePtr start) noexcept : gpu_(gpu), start_(start) {}
  Opened(const Gpu& gpu, MappedMemory mapped) noexcept
      : gpu_(gpu), start_(mapped.start()), mapped_(std::move(mapped)) {}
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  [[nodiscard]] const Gpu& gpu() const noexcept { return gpu_; }
  [[nodiscard]] DevicePtr start() const noexcept { return start_; }

  /// Where pieces come from: whoever keeps the descriptors of that arena's chunks.
  struct Source {
    ArenaNumber arena;
    ChunkKeeper& keeper;
    std::span<const Piece> pieces;
  };

  /// The one mapping that this process has of the allocation; opened if need be. `producer_gone`:
  /// its owner has ended, and no handle is opened any more; pieces outlive it. Throws CudaError,
  /// ProducerGone.
  static std::shared_ptr<Opened> get(const Description& description, const Source& source,
                                     bool producer_gone);

 private:
  const Gpu& gpu_;
  DevicePtr start_;
  MappedMemory mapped_;  ///< of pieces
};

}  // namespace shmtensor::cuda
