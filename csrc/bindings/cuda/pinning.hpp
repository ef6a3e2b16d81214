// Storages in host memory that is pinned, and their release.
#pragma once

#include "bindings/storage/storage.hpp"

namespace shmtensor::python {

/// Releases a block of pinned host memory that the object, which is being destroyed, has held.
/// Waits for nothing: `release_pinned_done` releases the block when all devices have ended the work
/// that they have been given so far. Called with the GIL.
void release_pinned_block(Storage* storage, const Backing& backing) noexcept;

/// Releases the blocks with which the devices have finished, unless this thread captures a CUDA
/// graph. Called with the GIL.
void release_pinned_done() noexcept;

void add_pinning(py::module_& module);

}  // namespace shmtensor::python
