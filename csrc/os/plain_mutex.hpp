// The mutexes below those of mutex.hpp. The simulation (tests/simulation) has others.
#pragma once

#include <mutex>

namespace shmtensor {

using PlainMutex = std::mutex;
using PlainRecursiveMutex = std::recursive_mutex;

}  // namespace shmtensor
