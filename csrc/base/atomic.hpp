// The atomics of the core. The simulation (tests/simulation) has another file of this name, whose
// accesses a scheduler orders.
#pragma once

#include <atomic>

namespace shmtensor {

template <typename T>
using Atomic = std::atomic<T>;

template <typename T>
using AtomicRef = std::atomic_ref<T>;

}  // namespace shmtensor
