// Storages over blocks: objects for the ones that are there, and new ones.
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "bindings/device_life.hpp"
#include "bindings/exports.hpp"
#include "bindings/gil.hpp"
#include "bindings/home.hpp"
#include "bindings/storage_life.hpp"
#include "cuda/copy.hpp"
#include "cuda/device_data.hpp"
#include "cuda/in_place.hpp"
#include "os/process.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

// The bytes of a block, with the GIL given away if finding them takes long.
std::span<std::byte> bytes_of(Arena* arena, BlockNumber block, Access access) {
  const std::span<std::byte> bytes = arena->bytes_at_once(block, access);
  if (bytes.data() != nullptr) return bytes;
  const GilRelease release;
  return arena->bytes(block, access);
}

bool has_ended(const cuda::Description& owner, const Arena& arena) noexcept {
  if (arena.segment().header().orphaned.load() != 0) return true;
  return owner.pid_namespace == pid_namespace() && !is_alive({owner.pid, owner.start_time});
}

struct InPlace {
  cuda::Description description{};
  std::vector<cuda::Piece> pieces;
};

InPlace read_in_place(Arena* arena, BlockNumber block) {
  const std::span<const std::byte> place = bytes_of(arena, block, Access::read_only);
  InPlace read;
  if (place.size() < sizeof read.description) throw StaleHandle("a handle is damaged");
  std::memcpy(&read.description, place.data(), sizeof read.description);
  const std::span<const std::byte> rest = place.subspan(sizeof read.description);
  const std::uint64_t bytes = std::uint64_t{read.description.pieces} * sizeof(cuda::Piece);
  if (bytes > rest.size()) throw StaleHandle("a handle is damaged");
  read.pieces.resize(bytes / sizeof(cuda::Piece));
  if (bytes != 0) std::memcpy(read.pieces.data(), rest.data(), bytes);
  return read;
}

// Memory that a user of another process owns; or of this one, which has sent it to itself.
py::object new_object_in_place(Arena* arena, BlockNumber block, Access access) {
  const auto [description, pieces] = read_in_place(arena, block);
  Backing backing{.arena = arena, .block = block, .kind = Backing::Kind::block, .access = access};
  if (arena->owned()) {
    const Exported mine = exported(arena, block);
    backing.data = mine.data;
    backing.device = static_cast<std::int16_t>(mine.device);
  } else {
    const auto session = Runtime::get().find(arena->memory().id());
    std::shared_ptr<cuda::Opened> opened;
    {
      const GilRelease release;
      opened = cuda::Opened::get(description,
                                 {arena->segment().number(), session->chunk_keeper(), pieces},
                                 has_ended(description, *arena));
    }
    backing.data = reinterpret_cast<std::byte*>(opened->start() + description.offset);
    backing.device = static_cast<std::int16_t>(opened->gpu().number());
    backing.keeper = new std::shared_ptr<cuda::Opened>(std::move(opened));
  }
  py::object object = new_object(description.size, backing);
  as_storage(object)->exposed.store(arena->owned());  // its owner has the address
  return object;
}

py::object new_object_for(Arena* arena, BlockNumber block, Access access) {
  const Strategy strategy = arena->segment().strategy();
  if (strategy == Strategy::in_place) return new_object_in_place(arena, block, access);
  const std::span<std::byte> bytes = bytes_of(arena, block, access);
  Backing backing{.data = bytes.data(),
                  .arena = arena,
                  .block = block,
                  .kind = Backing::Kind::block,
                  .access = access};
  if (strategy == Strategy::device) {
    const auto& data = static_cast<const cuda::DeviceData&>(arena->data());
    backing.device = static_cast<std::int16_t>(data.gpu().number());
  }
  return new_object(bytes.size(), backing);
}

}  // namespace

PyObject* find_object(const LocalTable::Lock& lock, Access access) noexcept {
  for (const Access kind : {Access::read_write, Access::read_only}) {
    if (kind == Access::read_only && access == Access::read_write) continue;
    auto* object = static_cast<PyObject*>(lock.object(kind));
    if (object != nullptr && try_incref(object)) return object;
  }
  return nullptr;
}

// An object that another thread made known meanwhile wins.
py::object wrap_block(Arena* arena, BlockNumber block, Access access) {
  py::object object;
  try {
    object = new_object_for(arena, block, access);
  } catch (...) {
    arena->release(block);
    throw;
  }
  enable_try_incref(object.ptr());
  PyObject* other = nullptr;
  {
    LocalTable::Lock lock(arena->local(), block);
    other = find_object(lock, access);
    if (other == nullptr) lock.object(access) = object.ptr();
  }
  return other != nullptr ? py::reinterpret_steal<py::object>(other) : object;
}

py::object new_shared_storage(std::uint64_t size, Strategy strategy, bool zeroed) {
  Session& session = home();
  std::optional<Block> block = session.allocate_warm(size, strategy);
  if (!block) {
    const GilRelease release;
    block = session.allocate(size, strategy);
  }
  py::object object = wrap_block(block->arena, block->number, Access::read_write);
  trim_if_due(*block->arena);
  if (zeroed) {
    std::byte* data = as_storage(object)->first.data;
    without_gil_if(size >= kLong, [&] { std::memset(data, 0, size); });
  }
  return object;
}

py::object new_device_storage(std::uint64_t size, int device, bool zeroed) {
  const Place place = Place::on_device(device);
  if (cuda::forked()) cuda::refuse_after_fork();
  release_parked();
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

py::object wrap_in_place(Arena* arena, BlockNumber block, std::byte* data, int device,
                         std::uint64_t size) {
  py::object object = new_object(size, {.data = data,
                                        .arena = arena,
                                        .block = block,
                                        .kind = Backing::Kind::block,
                                        .device = static_cast<std::int16_t>(device)});
  as_storage(object)->exposed.store(true);
  enable_try_incref(object.ptr());
  LocalTable::Lock lock(arena->local(), block);
  lock.object(Access::read_write) = object.ptr();
  return object;
}

py::object share_copy(const Storage& storage) {
  const Backing& backing = storage.backing();
  py::object copy = new_shared_storage(storage.size, default_strategy(), false);
  std::byte* to = as_storage(copy)->first.data;
  without_gil_if(storage.size >= kLong, [&] { std::memcpy(to, backing.data, storage.size); });
  return copy;
}

py::object readonly_storage(const py::object& object) {
  if (!is_storage(object.ptr())) throw py::type_error("not a storage");
  const Backing& backing = as_storage(object)->backing();
  if (backing.kind != Backing::Kind::block || backing.access == Access::read_only) return object;
  Arena* arena = backing.arena;
  const std::span<std::byte> bytes = arena->bytes(backing.block, Access::read_only);
  // Views of `object` were checked against its size.
  if (bytes.size() != as_storage(object)->size) throw StaleHandle("a block's record is damaged");
  py::object made = new_object(bytes.size(), {.data = bytes.data(),
                                              .arena = arena,
                                              .block = backing.block,
                                              .kind = Backing::Kind::block,
                                              .access = Access::read_only});
  enable_try_incref(made.ptr());
  LocalTable::Lock lock(arena->local(), backing.block);
  lock.set_count(lock.count() + 1);  // `object` has one, so this is not the first
  if (lock.object(Access::read_only) == nullptr) lock.object(Access::read_only) = made.ptr();
  return made;
}

}  // namespace shmtensor::python
