// Random numbers from the kernel.
#pragma once

#include <cstdint>

namespace shmtensor {

[[nodiscard]] std::uint64_t random_word();

}  // namespace shmtensor
