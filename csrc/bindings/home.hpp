// Finding this process's sessions from Python, with the GIL given away while that takes long.
#pragma once

#include <memory>
#include <string>

#include "bindings/python.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

/// Where this process allocates; joined or started at the first call.
[[nodiscard]] Session& home();

/// The session's id, chosen now if need be, without starting it.
[[nodiscard]] std::string home_id();

/// The session of a handle; joined at the first call. Throws StaleHandle when it has ended.
[[nodiscard]] std::shared_ptr<Session> session_of(const Handle& handle);

/// The arena of a handle, mapped at the first call; pinned. Throws StaleHandle when it is gone.
[[nodiscard]] Arena* arena_of(Session& session, const Handle& handle);

}  // namespace shmtensor::python
