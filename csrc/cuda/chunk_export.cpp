#include "cuda/chunk_export.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/report.hpp"

namespace shmtensor::cuda {
namespace {

// Calls `visit(base, size)` for each chunk that the range overlaps, in order.
template <typename Visit>
void for_each_chunk(const Gpu& gpu, DevicePtr start, std::uint64_t size, Visit&& visit) {
  const Current current(gpu);
  for (DevicePtr at = start; at < start + size;) {
    DevicePtr base = 0;
    std::size_t length = 0;
    const Result code = gpu.driver().cuMemGetAddressRange_v2(&base, &length, at);
    if (code != kSuccess) {
      throw CudaError(code, "the array extends past the end of its allocation");
    }
    visit(base, std::uint64_t{length});
    at = base + length;
  }
}

}  // namespace

std::size_t count_chunks(const Gpu& gpu, DevicePtr start, std::uint64_t size) {
  std::size_t count = 0;
  for_each_chunk(gpu, start, size, [&](DevicePtr, std::uint64_t) { ++count; });
  return count;
}

ExportedChunks::Range ExportedChunks::share(const Gpu& gpu, const Segment& segment,
                                            ChunkKeeper& keeper, DevicePtr start,
                                            std::uint64_t size) {
  Range range;
  try {
    for_each_chunk(gpu, start, size, [&](DevicePtr base, std::uint64_t length) {
      if (range.chunks.empty()) range.base = base;
      Shared& shared = shared_at(gpu, segment, keeper, base, length);
      range.chunks.push_back({length, shared.chunk, 0});
      ++shared.users;
      range.size += length;
    });
  } catch (...) {
    drop(segment, keeper, range.chunks);
    throw;
  }
  return range;
}

std::uint32_t ExportedChunks::unused_chunk() const {
  for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
    if (!taken_[chunk]) return chunk;
  }
  throw OutOfMemory(
      "cannot export an array: at most " + std::to_string(kMaxChunks) +
      " chunks of virtual memory can be exported; release some arrays, or share a copy "
      "(st.asarray(x, copy=True))");
}

// A process that knows the number of a chunk must be able to get its descriptor. So the table lists
// the chunk only after the manager has the descriptor.
ExportedChunks::Shared& ExportedChunks::shared_at(const Gpu& gpu, const Segment& segment,
                                                  ChunkKeeper& keeper, DevicePtr base,
                                                  std::uint64_t size) {
  if (const auto at = shared_.find(base); at != shared_.end()) return at->second;
  const PhysicalMemory memory = PhysicalMemory::at(gpu, base, size);
  Shared made{.chunk = unused_chunk(), .users = 0, .descriptor = memory.export_descriptor(gpu)};
  // Also if no answer comes: the manager may have the descriptor, or receive it later.
  taken_.set(made.chunk);
  keeper.keep(segment.number(), made.chunk, size, made.descriptor);
  segment.chunk(made.chunk).descriptor.store(made.descriptor.get());
  segment.chunk(made.chunk).size.store(size);
  return shared_.emplace(base, std::move(made)).first->second;
}

void ExportedChunks::drop(const Segment& segment, ChunkKeeper& keeper,
                          std::span<const ExportedChunk> chunks) noexcept {
  for (const ExportedChunk& one : chunks) {
    const auto at = std::find_if(shared_.begin(), shared_.end(), [&](const auto& entry) {
      return entry.second.chunk == one.chunk;
    });
    if (at == shared_.end() || --at->second.users > 0) continue;
    try {
      keeper.drop(segment.number(), one.chunk);
      segment.chunk(one.chunk).size.store(0);
      taken_.reset(one.chunk);
    } catch (const std::exception& error) {
      // The number is not used again, because the manager would return the descriptor of the old
      // memory. The descriptor is closed below and must not be sent to the next manager.
      segment.chunk(one.chunk).descriptor.store(-1);
      report("GPU memory leaked until the session ends: the manager still holds it: ",
             error.what());
    }
    shared_.erase(at);
  }
}

}  // namespace shmtensor::cuda
