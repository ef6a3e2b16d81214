// Why memory for an arena cannot be reserved, as text for error messages.
#pragma once

#include <cstdint>
#include <string>

#include "arena/budget.hpp"
#include "arena/layout.hpp"
#include "base/error.hpp"
#include "os/limits.hpp"

namespace shmtensor {

/// Returns the error of an allocation. Sizes from 1 MiB on are in MiB, as in the reasons below.
[[nodiscard]] OutOfMemory cannot_share(std::uint64_t size, const std::string& why);

/// Returns why `size` more bytes cannot be reserved now; empty if no reason is known.
[[nodiscard]] std::string shortage_of(std::uint64_t size, const Budget& budget,
                                      const AvailableMemory& available = available_memory());

/// The same without a budget.
[[nodiscard]] std::string shortage_of(std::uint64_t size, const AvailableMemory& available);

/// The reason after the budget has refused a reservation.
[[nodiscard]] std::string over_limit(const Budget& budget);

/// The reason after the kernel has refused pages to a file of this strategy.
[[nodiscard]] std::string refused_by_kernel(Strategy strategy);

}  // namespace shmtensor
