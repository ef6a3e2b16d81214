// Contexts other than the primary one, which a program may create (cuCtxCreate, PyCUDA): their work
// is waited for separately, and their memory has addresses of its own.
#pragma once

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// Returns the context of the device that allocated the memory, or opened it; the primary one for
/// memory that belongs to no context (virtual memory), is on another device, or is not known.
[[nodiscard]] ContextHandle context_of(const Gpu& gpu, DevicePtr memory);

/// Return true if a call in one context can address both memories.
[[nodiscard]] bool have_common_context(const Gpu& gpu, DevicePtr one, DevicePtr other);

/// Waits until the work is complete that this process has started on the device in the primary
/// context, in the context that has the memory, and in the calling thread's current one. Throws as
/// Gpu::synchronize does.
void synchronize_users(const Gpu& gpu, DevicePtr memory);

/// Makes the default stream of the primary context wait for the work so far in the default streams
/// of the others of those contexts.
void join_users(const Gpu& gpu, DevicePtr memory);

/// Waits for the work so far in a stream of the context that has the memory.
void wait_for_stream(const Gpu& gpu, DevicePtr memory, StreamHandle stream);

/// Makes the default stream of the primary context wait for that work.
void join_stream(const Gpu& gpu, DevicePtr memory, StreamHandle stream);

}  // namespace shmtensor::cuda
