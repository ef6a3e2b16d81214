// The names of a test run, so that runs can go side by side.
#pragma once

#include <string>

#include "base/ids.hpp"

namespace shmtensor::testing {

/// A session that nobody else has. All of a run begin with the same digits.
[[nodiscard]] SessionId fresh_session();

/// What the name of every memfd, /dev/shm entry and socket of this run begins with.
[[nodiscard]] std::string run_prefix();

}  // namespace shmtensor::testing
