// Chunks of other processes: exported once, opened once, and rejected if the descriptor is forged.
#include "cuda/chunk_export.hpp"

#include <unistd.h>

#include <bit>

#include "base/align.hpp"
#include "base/error.hpp"
#include "cuda/ipc_import.hpp"
#include "support/sim.hpp"

namespace shmtensor::testing {
namespace {

using cuda::DeviceDataSegment;
using cuda::ExportedChunk;
using cuda::ExportedChunks;
using cuda::Gpu;
using cuda::ImportedAllocation;
using cuda::IpcDescriptor;
using cuda::MappedMemory;
using cuda::PhysicalMemory;

constexpr std::uint64_t kChunkSize = 2 * kMiB;

/// Stands in for the manager.
class Keeper : public cuda::ChunkKeeper {
 public:
  void keep(ArenaNumber, std::uint32_t chunk, std::uint64_t, const Fd& descriptor) override {
    ++kept;
    if (fails) throw SessionError("no manager");
    chunks.try_emplace(chunk, ::dup(descriptor.get()));
    if (late) throw SessionError("the manager did not answer");
  }
  Fd fetch(ArenaNumber, std::uint32_t chunk) override {
    const auto at = chunks.find(chunk);
    if (at == chunks.end()) throw StaleHandle("no such chunk");
    return Fd(::dup(at->second.get()));
  }
  void drop(ArenaNumber, std::uint32_t chunk) override {
    if (fails) throw SessionError("no manager");
    chunks.erase(chunk);
  }

  std::map<std::uint32_t, Fd> chunks;
  int kept = 0;
  bool fails = false;
  bool late = false;
};

/// Three adjacent chunks, as torch has them, and their exporter.
struct World {
  World() {
    driver_with_context();
    std::vector<PhysicalMemory> chunks;
    for (int i = 0; i < 3; ++i) chunks.push_back(PhysicalMemory::create(gpu, kChunkSize));
    mapped = MappedMemory::map(gpu, chunks.data(), chunks.size(), Access::read_write);
  }

  ExportedChunks::Range share(std::uint64_t offset, std::uint64_t size) {
    return shared.share(gpu, *segment, keeper, mapped.start() + offset, size);
  }

  // The description of a range, as a block stores it.
  [[nodiscard]] IpcDescriptor describe(const ExportedChunks::Range& range) const {
    IpcDescriptor description{};
    description.magic = cuda::kIpcDescriptorMagic;
    description.handle = cuda::name_chunks(7, {1, 1}, range.chunks);
    description.device = gpu.uuid();
    description.base_size = range.size;
    description.offset = 100;
    description.size = range.size - 100;
    description.chunks = static_cast<std::uint32_t>(range.chunks.size());
    return description;
  }
  std::shared_ptr<ImportedAllocation> open(const IpcDescriptor& description,
                                           const std::vector<ExportedChunk>& chunks) {
    return ImportedAllocation::get(description, {7, keeper, chunks}, false);
  }

  const Gpu& gpu = Gpu::get(0);
  MappedMemory mapped;
  std::unique_ptr<Segment> segment = Segment::create({1, 2}, 7, 0, 1, Strategy::external,
                                                     {.max_blocks = 64, .data_reserve = kMiB});
  Keeper keeper;
  ExportedChunks shared;
};

class Pieces : public SimTest {};

TEST_F(Pieces, FailedExportLeaksNothing) {
  in_child([] {
    World world;
    EXPECT_THROW(static_cast<void>(world.share(2 * kChunkSize, kChunkSize + 1)), cuda::CudaError);
    EXPECT_TRUE(world.keeper.chunks.empty());
    world.keeper.fails = true;
    EXPECT_THROW(static_cast<void>(world.share(0, 1)), SessionError);
    world.keeper.fails = false;
    EXPECT_EQ(world.share(0, 1).chunks[0].chunk, 1U) << "the manager may have the other";
  });
}

// It would send the descriptor that it received first.
TEST_F(Pieces, NumberIsNotUsedAgainIfManagerDoesNotReply) {
  in_child([] {
    World world;
    world.keeper.late = true;
    EXPECT_THROW(static_cast<void>(world.share(0, 1)), SessionError);
    world.keeper.late = false;
    write_device(world.gpu.driver(), world.mapped.start() + kChunkSize, {42});
    const auto range = world.share(kChunkSize, 1);
    const auto opened = world.open(world.describe(range), range.chunks);
    EXPECT_EQ(read_device(world.gpu.driver(), opened->start(), 1)[0], 42);

    const auto segment =
        Segment::create({1, 2}, 8, 0, 1, Strategy::device, {.max_blocks = 64, .data_reserve = kMiB},
                        std::bit_cast<DeviceId>(world.gpu.uuid()));
    Keeper keeper;
    DeviceDataSegment mine(*segment, world.gpu, keeper, true);
    DeviceDataSegment others(*segment, world.gpu, keeper, false);
    RangeAllocator space;
    keeper.late = true;
    EXPECT_THROW(static_cast<void>(mine.grow(space, kChunkSize)), SessionError);
    keeper.late = false;
    ASSERT_TRUE(mine.grow(space, kChunkSize));
    const std::uint64_t offset = space.offset(space.allocate(kChunkSize));
    const auto address = [offset](DeviceDataSegment& data) {
      return reinterpret_cast<cuda::DevicePtr>(data.at(offset, 1, Access::read_write));
    };
    write_device(world.gpu.driver(), address(mine), {43});
    EXPECT_EQ(read_device(world.gpu.driver(), address(others), 1)[0], 43);
  });
}

// Any process can write into the table.
TEST_F(Pieces, NumberIsNotUsedAgainIfTableIsDamaged) {
  in_child([] {
    World world;
    const auto first = world.share(0, 1);
    world.segment->chunk(first.chunks[0].chunk).size.store(0);
    EXPECT_NE(world.share(kChunkSize, 1).chunks[0].chunk, first.chunks[0].chunk);
  });
}

// Its number in this process may belong to another file when a new manager is informed of it.
TEST_F(Pieces, DescriptorIsRemovedEvenIfManagerDoesNotReply) {
  in_child([] {
    World world;
    const auto range = world.share(0, 1);
    const auto& record = world.segment->chunk(range.chunks[0].chunk);
    EXPECT_EQ(Fd(::dup(record.descriptor.load())).identity(), world.keeper.chunks[0].identity());
    world.keeper.fails = true;
    world.shared.drop(*world.segment, world.keeper, range.chunks);
    EXPECT_EQ(record.descriptor.load(), -1);
    EXPECT_NE(record.size.load(), 0U) << "the manager may still send it";
  });
}

TEST_F(Pieces, RejectsForgedDescriptorsAndOpensValidOnesOnce) {
  in_child([] {
    World world;
    const auto range = world.share(0, 2 * kChunkSize);
    const IpcDescriptor good = world.describe(range);
    const auto refuse = [&](auto&& change) {
      IpcDescriptor description = good;
      std::vector<ExportedChunk> chunks = range.chunks;
      change(description, chunks);
      EXPECT_THROW(static_cast<void>(world.open(description, chunks)), StaleHandle);
    };
    refuse([](IpcDescriptor& description, auto&) { description.magic ^= 1; });
    refuse([](IpcDescriptor& description, auto&) { description.offset = description.base_size; });
    refuse([](IpcDescriptor& description, auto&) { description.size += 1; });
    refuse([](IpcDescriptor& description, auto&) { description.size = ~std::uint64_t{0} - 50; });
    refuse([](IpcDescriptor& description, auto&) { description.base_size += kChunkSize; });
    refuse([](IpcDescriptor& description, auto&) { description.chunks = 1; });
    refuse([](IpcDescriptor&, auto& chunks) { chunks[1].chunk = kMaxChunks; });
    refuse([](IpcDescriptor&, auto& chunks) { chunks[1].chunk = 40; });  // no process has it
    refuse([](IpcDescriptor&, auto& chunks) { chunks[0].size = ~std::uint64_t{0} - kChunkSize; });
    refuse([](IpcDescriptor&, auto& chunks) { chunks.pop_back(); });
    IpcDescriptor swapped = good;
    std::vector<ExportedChunk> lying = range.chunks;
    lying[0].size /= 2;
    lying[1].size += kChunkSize / 2;
    EXPECT_THROW(static_cast<void>(world.open(swapped, lying)), cuda::CudaError) << "other sizes";

    const auto opened = world.open(good, range.chunks);
    EXPECT_EQ(opened.get(), world.open(good, range.chunks).get());
    refuse([&](IpcDescriptor& description, auto& chunks) {  // of the same name, but larger
      chunks[1].size += kChunkSize;
      description.base_size += kChunkSize;
      description.offset = 2 * kChunkSize;
      description.size = kChunkSize;
    });
    write_device(world.gpu.driver(), world.mapped.start() + kChunkSize, {42});
    EXPECT_EQ(read_device(world.gpu.driver(), opened->start() + kChunkSize, 1)[0], 42);
  });
}

}  // namespace
}  // namespace shmtensor::testing
