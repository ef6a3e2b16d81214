#include "bindings/storage/allocation.hpp"

#include <cstring>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/device_support.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/support/objects.hpp"
#include "cuda/device_data_segment.hpp"

namespace shmtensor::python {
namespace {

py::object new_object_for(Arena* arena, BlockNumber block, Access access) {
  const Strategy strategy = arena->segment().strategy();
  if (strategy == Strategy::external) return device_support.open_export(arena, block, access);
  const std::span<std::byte> bytes = bytes_of(arena, block, access);
  Backing backing{.data = bytes.data(),
                  .arena = arena,
                  .block = block,
                  .kind = Backing::Kind::block,
                  .access = access};
  if (strategy == Strategy::device) {
    const auto& data = static_cast<const cuda::DeviceDataSegment&>(arena->data());
    backing.device = static_cast<std::int16_t>(data.gpu().number());
  }
  return new_object(bytes.size(), backing);
}

// The same block without the right to write: another object over another mapping, unless `object`
// is read-only. For a process that has written a block and releases the writable object.
py::object readonly_storage(const py::object& object) {
  const Backing& backing = to_storage(object.ptr()).backing();
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
  if (lock.object(Access::read_only) == nullptr) {
    arena->local().set_object(lock, Access::read_only, made.ptr());
  }
  return made;
}

}  // namespace

std::span<std::byte> bytes_of(Arena* arena, BlockNumber block, Access access) {
  const std::span<std::byte> bytes = arena->bytes_at_once(block, access);
  if (bytes.data() != nullptr) return bytes;
  const GilRelease release;
  return arena->bytes(block, access);
}

PyObject* find_object(const Arena& arena, const LocalTable::Lock& lock, Access access) noexcept {
  for (const Access kind : {Access::read_write, Access::read_only}) {
    if (kind != access && (access == Access::read_write || !arena.owned())) continue;
    auto* object = static_cast<PyObject*>(lock.object(kind));
    if (object != nullptr && try_incref(object)) return object;
  }
  return nullptr;
}

// If another thread has made one known in between, this returns that.
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
    other = find_object(*arena, lock, access);
    if (other == nullptr) arena->local().set_object(lock, access, object.ptr());
  }
  return other != nullptr ? py::reinterpret_steal<py::object>(other) : object;
}

py::object adopt_block(Arena* arena, BlockNumber block, Access access) {
  PyObject* known = nullptr;
  {
    LocalTable::Lock lock(arena->local(), block);
    known = find_object(*arena, lock, access);
    // The object has a reference of its own, so this is not the last.
    if (known != nullptr) static_cast<void>(arena->release(lock, block));
  }
  if (known != nullptr) return py::reinterpret_steal<py::object>(known);
  return wrap_block(arena, block, access);
}

py::object new_shared_storage(std::uint64_t size, bool zeroed) {
  const Block block = allocate_block(home(), size, default_strategy());
  py::object object = wrap_block(block.arena, block.number, Access::read_write);
  trim_if_due(*block.arena);
  if (zeroed) {
    std::byte* data = as_storage(object)->first.data;
    without_gil_if(size >= kLong, [&] { std::memset(data, 0, size); });
  }
  return object;
}

py::object share_copy(std::span<const std::byte> bytes) {
  py::object copy = new_shared_storage(bytes.size(), false);
  std::byte* const to = as_storage(copy)->first.data;
  without_gil_if(bytes.size() >= kLong, [&] { std::memcpy(to, bytes.data(), bytes.size()); });
  return copy;
}

void add_allocation(py::module_& module) {
  module.def("new_storage", &new_shared_storage);
  module.def("readonly_storage", &readonly_storage);
}

}  // namespace shmtensor::python
