// The names of a test run, which differ from those of simultaneous runs.
#pragma once

#include <string>

#include "base/ids.hpp"

namespace shmtensor::testing {

/// Return a new session id. All ids of a run begin with the same digits.
[[nodiscard]] SessionId fresh_session();

/// Return the prefix of the names of all memfds, /dev/shm entries and sockets of this run.
[[nodiscard]] std::string run_prefix();

}  // namespace shmtensor::testing
