// How device memory is let go: not before the device is done with it.
#pragma once

#include "bindings/storage.hpp"

namespace shmtensor::python {

/// Lets go of a block of device memory that the object, which is going, has held. If the driver
/// refuses to wait for the device, the block is kept, and `release_parked` tries again.
void release_device_block(const Storage* storage, const Backing& backing) noexcept;

/// Lets go of what could not be let go before, as far as it can be now. With the GIL, which it
/// gives away if there is anything.
void release_parked() noexcept;

}  // namespace shmtensor::python
