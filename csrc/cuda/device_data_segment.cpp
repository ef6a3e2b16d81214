#include "cuda/device_data_segment.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/report.hpp"
#include "os/clock.hpp"

namespace shmtensor::cuda {
namespace {

std::uint32_t now() noexcept { return static_cast<std::uint32_t>(coarse_milliseconds()); }

std::size_t index_of(Access access) noexcept { return static_cast<std::size_t>(access); }

struct ChunkOffset {
  std::uint64_t chunk;
  std::uint64_t inner;
};
ChunkOffset chunk_offset_of(std::uint64_t offset) noexcept {
  return {offset >> kChunkShift, offset & ((std::uint64_t{1} << kChunkShift) - 1)};
}

}  // namespace

DeviceDataSegment::DeviceDataSegment(const Segment& segment, const Gpu& gpu, ChunkKeeper& keeper,
                                     bool owned)
    : segment_(segment), gpu_(gpu), keeper_(keeper), owned_(owned) {
  for (auto& descriptor : descriptors_) descriptor.store(-1);
}

DeviceDataSegment::~DeviceDataSegment() { forget_in_child(); }

std::byte* DeviceDataSegment::at_once(std::uint64_t offset, std::uint64_t size,
                                      Access access) noexcept {
  const auto [chunk, inner] = chunk_offset_of(offset);
  if (chunk >= kMaxChunks) return nullptr;
  const DevicePtr start = starts_[index_of(access)][chunk].load(std::memory_order_acquire);
  if (start == 0 || !fits(inner, size, sizes_[chunk].load())) return nullptr;
  return reinterpret_cast<std::byte*>(start + inner);
}

// Threads that need the same chunk wait for the thread that imports it.
std::byte* DeviceDataSegment::at(std::uint64_t offset, std::uint64_t size, Access access) {
  if (std::byte* known = at_once(offset, size, access)) return known;
  refuse_after_fork();
  const auto [number, inner] = chunk_offset_of(offset);
  const std::uint64_t chunk_size =
      number < kMaxChunks ? segment_.chunk(static_cast<std::uint32_t>(number)).size.load() : 0;
  const auto require = [&](bool inside) {
    if (inside) return;
    throw SessionError("a block of arena " + std::to_string(segment_.number()) +
                       " refers to memory outside of the arena");
  };
  require(chunk_size != 0 && fits(inner, size, chunk_size));
  const auto chunk = static_cast<std::uint32_t>(number);
  const LockGuard guard(mutex_);
  if (std::byte* known = at_once(offset, size, access)) return known;
  if (!chunks_[chunk]) {
    Fd descriptor = keeper_.fetch(segment_.number(), chunk);
    auto made = std::make_unique<Chunk>();
    made->memory = PhysicalMemory::import(gpu_, descriptor, chunk_size);
    // Kept so that a new manager can be sent the chunk if this manager and the owner are
    // killed.
    descriptors_[chunk].store(descriptor.release());
    chunks_[chunk] = std::move(made);
  }
  require(fits(inner, size, chunks_[chunk]->memory.size()));  // the size in the table at the time
                                                              // of the import
  MappedMemory& mapped = chunks_[chunk]->mapped[index_of(access)];
  if (!mapped) mapped = MappedMemory::map(gpu_, chunks_[chunk]->memory, access);
  publish(chunk, access);
  return reinterpret_cast<std::byte*>(mapped.start() + inner);
}

void DeviceDataSegment::publish(std::uint32_t number, Access access) {
  Chunk& chunk = *chunks_[number];
  const DevicePtr start = chunk.mapped[index_of(access)].start();
  chunk.listed[index_of(access)] =
      segment_.list(reinterpret_cast<const std::byte*>(start), chunk.memory.size(),
                    std::uint64_t{number} << kChunkShift);
  sizes_[number].store(chunk.memory.size());
  starts_[index_of(access)][number].store(start, std::memory_order_release);
}

// Each chunk takes a descriptor in every process that uses it, so its size grows with the memory of
// the device, and is a multiple of what is needed; smaller ones are made where memory is short.
bool DeviceDataSegment::grow(RangeAllocator& space, std::uint64_t size) {
  clear_shortage();
  if (next_chunk_ == kMaxChunks) return false;
  const std::uint64_t page = PhysicalMemory::granularity(gpu_);
  const std::uint64_t needed = align_up(rounded(std::max<std::uint64_t>(size, 1)), page);
  const std::uint64_t wished =
      std::clamp(std::bit_floor(reserved_.load() / 4), kSmallChunk, kLargeChunk);
  std::uint64_t tried = 0;
  for (const std::uint64_t target : {wished, kSmallChunk, page}) {
    const std::uint64_t made = (target + needed - 1) / needed * needed;
    if (made == tried) continue;
    tried = made;
    const std::uint32_t number = next_chunk_;
    if (!make_chunk(number, made)) continue;
    space.extend_at(std::uint64_t{number} << kChunkShift, made);
    return true;
  }
  return false;
}

// The table lists a chunk only after all processes can get its descriptor.
bool DeviceDataSegment::make_chunk(std::uint32_t number, std::uint64_t size) {
  auto chunk = std::make_unique<Chunk>();
  Fd descriptor;
  try {
    chunk->memory = PhysicalMemory::create(gpu_, size);
    chunk->mapped[index_of(Access::read_write)] =
        MappedMemory::map(gpu_, chunk->memory, Access::read_write);
    descriptor = chunk->memory.export_descriptor(gpu_);
  } catch (const CudaError& error) {
    if (error.code() != kOutOfMemory) throw;
    short_of_ = error.what();
    return false;
  }
  // Also if no answer comes: the manager may have the descriptor, or receive it later.
  next_chunk_ = number + 1;
  keeper_.keep(segment_.number(), number, size, descriptor);
  used_at_[number] = now();
  const LockGuard guard(mutex_);
  chunks_[number] = std::move(chunk);
  publish(number, Access::read_write);
  segment_.chunk(number).descriptor.store(descriptor.get());
  descriptors_[number].store(descriptor.release());
  segment_.chunk(number).size.store(size);
  reserved_.fetch_add(size);
  return true;
}

void DeviceDataSegment::touch(std::uint64_t offset, std::uint64_t) noexcept {
  used_at_[chunk_offset_of(offset).chunk] = now();
}

// Only the session's `collect` calls this. Frees whole chunks without allocated blocks.
bool DeviceDataSegment::trim(YieldingLock&, RangeAllocator& space, std::uint64_t idle_milliseconds,
                             std::uint64_t) noexcept {
  const std::uint32_t time = now();
  for (std::uint32_t chunk = 0; chunk < next_chunk_; ++chunk) {
    const std::uint64_t size = sizes_[chunk].load();
    if (size == 0 || time - used_at_[chunk] < idle_milliseconds) continue;
    if (!space.remove(std::uint64_t{chunk} << kChunkShift, size)) continue;
    segment_.chunk(chunk).size.store(0);
    const LockGuard guard(mutex_);
    forget(chunk);
    reserved_.fetch_sub(size);
    try {
      keeper_.drop(segment_.number(), chunk);
    } catch (const std::exception& error) {
      report("device memory leaked until the session ends: the manager still holds it: ",
             error.what());
    }
  }
  return false;
}

void DeviceDataSegment::forget(std::uint32_t chunk) noexcept {
  for (auto& starts : starts_) starts[chunk].store(0);
  sizes_[chunk].store(0);
  chunks_[chunk].reset();
  const Fd closed(descriptors_[chunk].exchange(-1));
}

void DeviceDataSegment::drop_gone() noexcept {
  if (owned_ || Driver::usable() == nullptr) return;
  const LockGuard guard(mutex_);
  for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
    if (chunks_[chunk] && segment_.chunk(chunk).size.load() == 0) forget(chunk);
  }
}

void DeviceDataSegment::forget_in_child() noexcept {
  for (auto& starts : starts_) {
    for (auto& start : starts) start.store(0);
  }
  for (auto& descriptor : descriptors_) {
    const Fd closed(descriptor.exchange(-1));
  }
}

int DeviceDataSegment::descriptor_count() const noexcept {
  return static_cast<int>(std::count_if(descriptors_.begin(), descriptors_.end(),
                                        [](const auto& one) { return one.load() >= 0; }));
}

}  // namespace shmtensor::cuda
