// A private /dev/shm for a test, of any size.
#pragma once

#include <cstdint>

namespace shmtensor::testing {

/// Moves this process, a child made for the purpose, into a mount namespace where /dev/shm is an
/// empty tmpfs of that size. Returns false if the system does not allow it; the test is then
/// skipped.
[[nodiscard]] bool enter_private_shm(std::uint64_t size);

/// Returns true if `enter_private_shm` works here; tried once, in a child.
[[nodiscard]] bool private_shm_works();

}  // namespace shmtensor::testing
