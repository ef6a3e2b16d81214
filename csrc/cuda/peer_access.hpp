// Access of a GPU to the memory of another one, which virtual memory needs for each GPU.
#pragma once

#include <cstdint>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// A mapping of this library, to which the device has the access `flags`, must be listed as long as
/// it exists.
void list_mapping(DevicePtr start, std::uint64_t size, int device, int flags);
void unlist_mapping(DevicePtr start) noexcept;

/// Gives a peer the access to the mapping of this library that contains the address. Return true if
/// the peer can access the memory; for other memory always, since libraries and the driver see to
/// it. Called without the GIL: the driver may take long.
bool let_access(int peer, DevicePtr memory);

/// Gives access to all peers that this process uses, in any library, and that can have it.
void let_used_peers_access(DevicePtr memory);

}  // namespace shmtensor::cuda
