// The release of device memory, deferred until the device has finished with it.
#pragma once

#include "bindings/storage/storage.hpp"

namespace shmtensor::python {

/// Releases a block of device memory that the object, which is being destroyed, has held. If the
/// driver refuses to wait for the device, the block is kept for `release_deferred`.
void release_device_block(const Storage* storage, const Backing& backing) noexcept;

/// Releases a block with which the devices have finished, and with it what its arena maps if that
/// was the last block of a dead owner.
void release_now(const Storage* storage, const Backing& backing) noexcept;

/// Releases the kept blocks of devices that have finished. Called with the GIL, which it releases
/// if there are any.
void release_deferred() noexcept;

}  // namespace shmtensor::python
