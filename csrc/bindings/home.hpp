// Finding this process's sessions from Python, with the GIL given away while that takes long.
#pragma once

#include <algorithm>
#include <cstdint>
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

/// An age as the manager takes it. More than 1e12 seconds are no more, and would not fit.
[[nodiscard]] inline std::uint64_t in_milliseconds(double seconds) noexcept {
  return static_cast<std::uint64_t>(std::min(seconds, 1e12) * 1000);
}

}  // namespace shmtensor::python
