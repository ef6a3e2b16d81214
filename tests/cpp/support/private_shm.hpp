// A /dev/shm of a test's own, as small as it wants.
#pragma once

#include <cstdint>

namespace shmtensor::testing {

/// Puts this process, a child made for the purpose, into a mount namespace where /dev/shm is an
/// empty tmpfs of that size. False when the system does not allow it: then the test is skipped.
[[nodiscard]] bool enter_private_shm(std::uint64_t size);

/// Can `enter_private_shm` work here? Tried once, in a child.
[[nodiscard]] bool private_shm_works();

}  // namespace shmtensor::testing
