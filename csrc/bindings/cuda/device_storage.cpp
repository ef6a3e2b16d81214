#include "bindings/cuda/device_storage.hpp"

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bindings/cuda/deferred_release.hpp"
#include "bindings/cuda/ipc_exports.hpp"
#include "bindings/cuda/pinning.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/support/gil.hpp"
#include "cuda/copy.hpp"
#include "cuda/ipc_import.hpp"
#include "cuda/maker.hpp"
#include "cuda/peer_access.hpp"

namespace shmtensor::python {
namespace {

bool has_ended(const cuda::IpcDescriptor& owner, const Arena& arena) noexcept {
  return arena.segment().header().orphaned.load() != 0 || maker_of(owner).has_ended();
}

struct ReadExport {
  cuda::IpcDescriptor description{};
  std::vector<cuda::ExportedChunk> chunks;
};

ReadExport read_export(Arena* arena, BlockNumber block) {
  // This process has written into an arena of its own, which is mapped so already.
  const Access access = arena->owned() ? Access::read_write : Access::read_only;
  const std::span<const std::byte> place = bytes_of(arena, block, access);
  ReadExport read;
  if (place.size() < sizeof read.description) throw StaleHandle("a handle is damaged");
  std::memcpy(&read.description, place.data(), sizeof read.description);
  const std::span<const std::byte> rest = place.subspan(sizeof read.description);
  const std::uint64_t bytes = std::uint64_t{read.description.chunks} * sizeof(cuda::ExportedChunk);
  if (bytes > rest.size()) throw StaleHandle("a handle is damaged");
  read.chunks.resize(bytes / sizeof(cuda::ExportedChunk));
  if (bytes != 0) std::memcpy(read.chunks.data(), rest.data(), bytes);
  return read;
}

// Memory that a user of another process owns, or of this process, which has sent it to itself.
py::object open_export(Arena* arena, BlockNumber block, Access access) {
  const auto [description, chunks] = read_export(arena, block);
  Backing backing{.arena = arena, .block = block, .kind = Backing::Kind::block, .access = access};
  // Closes the memory if no object is made; the caller then releases the block.
  std::unique_ptr<std::shared_ptr<cuda::ImportedAllocation>> opened;
  if (arena->owned()) {
    const Exported mine = exported(arena, block);
    backing.data = mine.data;
    backing.device = static_cast<std::int16_t>(mine.device);
  } else {
    opened = std::make_unique<std::shared_ptr<cuda::ImportedAllocation>>();
    const auto session = Runtime::get().find(arena->memory().id());
    const GilRelease release;
    const auto open = [&](bool ended) {
      return cuda::ImportedAllocation::get(
          description, {arena->segment().number(), session->manager(), chunks}, ended);
    };
    try {
      *opened = open(has_ended(description, *arena));
    } catch (const cuda::ProducerGone&) {
      throw;
    } catch (const cuda::CudaError& error) {
      if (!chunks.empty() || !maker_of(description).caused(error)) throw;
      *opened = open(true);  // raises ProducerGone
    }
    backing.data = reinterpret_cast<std::byte*>((*opened)->start() + description.offset);
    backing.device = static_cast<std::int16_t>((*opened)->gpu().number());
    backing.keeper = opened.get();
  }
  py::object object = new_object(description.size, backing);
  static_cast<void>(opened.release());
  as_storage(object)->exposed.store(arena->owned());  // its user has the address
  return object;
}

py::object new_device_storage(std::uint64_t size, int device, bool zeroed) {
  const Placement place = Placement::on_device(device);
  if (cuda::forked()) cuda::refuse_after_fork();
  release_deferred();
  Session& session = home();
  std::optional<Block> block = session.allocate_warm(size, place);
  if (!block) {
    const GilRelease release;
    const cuda::Gpu& gpu = cuda::Gpu::get(device);
    if (!gpu.has_virtual_memory()) {
      throw cuda::CudaUnavailable(
          cuda::kNotSupported,
          "cannot allocate on cuda:" + std::to_string(device) +
              ": its driver does not share virtual memory by descriptors (WSL2, some vGPUs and old "
              "drivers do not); share arrays of another library with st.asarray, or host tensors");
    }
    block = session.allocate(size, place);
  }
  py::object object = wrap_block(block->arena, block->number, Access::read_write);
  if (zeroed) {
    const GilRelease release;
    const std::byte zero{};
    cuda::fill(cuda::Gpu::get(device),
               reinterpret_cast<cuda::DevicePtr>(as_storage(object)->first.data), &zero, 1, size);
  }
  return object;
}

void let_peers_access(const Storage& storage) noexcept {
  try {
    if (cuda::Driver::usable() == nullptr || cuda::Gpu::count() < 2) return;
    const GilRelease release;
    cuda::let_used_peers_access(cuda::address_of(storage.backing().data));
  } catch (const cuda::CudaError&) {
    // The address is needed all the same; its use on another GPU fails, and reports why.
  }
}

void release_after_work(Storage* storage, const Backing& backing) noexcept {
  if (backing.device >= 0) {
    release_device_block(storage, backing);
  } else {
    release_pinned_block(storage, backing);
  }
}

void release_all_deferred() noexcept {
  release_deferred();
  release_pinned_done();
}

}  // namespace

void add_device_storage(py::module_& module) {
  device_support = {.allocate = &new_device_storage,
                    .open_export = &open_export,
                    .release = &release_after_work,
                    .let_peers_access = &let_peers_access,
                    .release_deferred = &release_all_deferred};
  module.def("cuda_new_storage", &new_device_storage);
}

}  // namespace shmtensor::python
