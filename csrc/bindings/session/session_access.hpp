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

/// A new block with one reference. Releases the GIL if that takes a call of the system. Throws
/// OutOfMemory, SessionError.
[[nodiscard]] Block allocate_block(Session& session, std::uint64_t size, Placement placement);

/// The session of a handle; joined at the first call. Throws StaleHandle if it has ended, or has no
/// manager and `start` starts none.
[[nodiscard]] std::shared_ptr<Session> session_of(
    const SessionId& id, Session::Start start = Session::Start::if_it_lives);

/// The arena of a handle, mapped at the first call. Throws StaleHandle if it is gone.
[[nodiscard]] PinnedArena arena_of(Session& session, const TensorReference& reference);

/// An age in the manager's unit. More than 1e12 seconds count as 1e12, which fits.
[[nodiscard]] inline std::uint64_t in_milliseconds(double seconds) noexcept {
  return static_cast<std::uint64_t>(std::min(seconds, 1e12) * 1000);
}

}  // namespace shmtensor::python
