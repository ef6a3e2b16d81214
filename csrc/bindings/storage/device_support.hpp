// Storages on a GPU. The functions are in bindings/cuda, which is above this folder and registers
// them when the module is made.
#pragma once

#include <cstdint>

#include "bindings/storage/storage.hpp"

namespace shmtensor::python {

struct DeviceSupport {
  /// A storage over a new block in memory of a GPU.
  py::object (*allocate)(std::uint64_t size, int device, bool zeroed);
  /// A new object for a block that describes GPU memory of a user.
  py::object (*open_export)(Arena* arena, BlockNumber block, Access access);
  /// Releases the block of an object that is being destroyed, on a device or pinned, after the
  /// devices have finished with it.
  void (*release)(Storage* storage, const Backing& backing) noexcept;
  /// Lets every GPU that this process uses access the memory, if it can.
  void (*let_peers_access)(const Storage& storage) noexcept;
  /// Releases the blocks whose release was deferred. Called with the GIL, which it releases if
  /// there are any.
  void (*release_deferred)() noexcept;
};

inline DeviceSupport device_support{};

/// Must be called before a user gets the address of the storage's memory. Called with the GIL.
inline void expose(Storage& storage) noexcept {
  storage.exposed.store(true);
  if (storage.device() >= 0) device_support.let_peers_access(storage);
}

}  // namespace shmtensor::python
