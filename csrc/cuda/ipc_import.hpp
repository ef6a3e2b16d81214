// Zero-copy export: imports GPU memory that a user's library owns, by the driver's IPC handle or in
// chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cuda/chunk_export.hpp"
#include "os/process.hpp"

namespace shmtensor::cuda {

/// The content of a block of an arena of Strategy::external; its chunks follow, if there are any.
/// Written once, by the arena's owner, before any other process knows the block.
struct IpcDescriptor {
  std::uint64_t magic;
  IpcMemoryHandle handle;  ///< of the whole allocation; for chunks: zeros, except for `name_chunks`
  Uuid device;
  std::uint64_t base_size;      ///< size of the allocation
  std::uint64_t offset;         ///< of the shared bytes in the allocation
  std::uint64_t size;           ///< number of shared bytes
  std::uint64_t buffer_id;      ///< the driver's id, unique
  std::int32_t pid;             ///< of the owner
  std::uint32_t chunks;         ///< 0: opened by `handle`
  std::uint64_t start_time;     ///< of that process
  std::uint64_t pid_namespace;  ///< the namespace in which its pid is valid
};
/// Returns a key for a range of chunks, by which an importer finds the range if it has it open.
[[nodiscard]] IpcMemoryHandle name_chunks(ArenaNumber arena, const ProcessIdentity& owner,
                                          std::span<const ExportedChunk> chunks);
inline constexpr std::uint64_t kIpcDescriptorMagic = 0x6563'616c'702d'6e69;  // "in-place"

/// An allocation of another process that is open in this process. It is closed with the last
/// storage that uses it, before that storage releases its block. So the owner never frees memory
/// that another process has open.
/// Threads: all members may be called simultaneously.
class ImportedAllocation {
 public:
  ImportedAllocation(const Gpu& gpu, DevicePtr start, std::uint64_t size) noexcept
      : gpu_(gpu), start_(start), size_(size) {}
  ImportedAllocation(const Gpu& gpu, MappedMemory mapped) noexcept
      : gpu_(gpu), start_(mapped.start()), size_(mapped.size()), mapped_(std::move(mapped)) {}
  ~ImportedAllocation();
  ImportedAllocation(const ImportedAllocation&) = delete;
  ImportedAllocation& operator=(const ImportedAllocation&) = delete;

  [[nodiscard]] const Gpu& gpu() const noexcept { return gpu_; }
  [[nodiscard]] DevicePtr start() const noexcept { return start_; }
  /// As its first description declares.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// The source of chunks: the keeper of the descriptors of that arena's chunks.
  struct Source {
    ArenaNumber arena;
    ChunkKeeper& keeper;
    std::span<const ExportedChunk> chunks;
  };

  /// Returns the only mapping of the allocation in this process; opened if needed. `producer_gone`:
  /// the owner has ended, so no handle is opened; chunks outlive the owner. Throws CudaError,
  /// ProducerGone.
  static std::shared_ptr<ImportedAllocation> get(const IpcDescriptor& description,
                                                 const Source& source, bool producer_gone);

 private:
  static std::shared_ptr<ImportedAllocation> open(const Gpu& gpu, const IpcDescriptor& description);

  const Gpu& gpu_;
  DevicePtr start_;  ///< 0: not open
  std::uint64_t size_;
  MappedMemory mapped_;  ///< of chunks
};

}  // namespace shmtensor::cuda
