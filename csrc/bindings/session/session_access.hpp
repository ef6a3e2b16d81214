// This process's sessions, for Python. Whatever takes long runs without the GIL.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "bindings/support/python.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

/// The session in which this process allocates; joined or started at the first call.
[[nodiscard]] Session& home();

/// The id of that session, chosen now if need be; does not start it.
[[nodiscard]] std::string home_id();

/// The session of a handle; joined at the first call. Throws StaleHandle if it has ended.
[[nodiscard]] std::shared_ptr<Session> session_of(const Handle& handle);

/// The arena of a handle, mapped at the first call. Throws StaleHandle if it is gone.
[[nodiscard]] PinnedArena arena_of(Session& session, const Handle& handle);

/// An age in the manager's unit. More than 1e12 seconds count as 1e12, which fits.
[[nodiscard]] inline std::uint64_t in_milliseconds(double seconds) noexcept {
  return static_cast<std::uint64_t>(std::min(seconds, 1e12) * 1000);
}

}  // namespace shmtensor::python
