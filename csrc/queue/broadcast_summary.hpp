// A broadcast seen from outside: by a process that neither holds it nor takes its lock.
#pragma once

#include <optional>

#include "queue/summary.hpp"

namespace shmtensor {

/// As `summarize_queue`. The messages are those that the slowest reader has still to read.
[[nodiscard]] std::optional<QueueSummary> summarize_broadcast(const Segment& segment,
                                                              BlockNumber block,
                                                              const SessionMemory& memory);

}  // namespace shmtensor
