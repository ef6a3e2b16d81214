// Memory pools, as their parts share them. All with the lock held.
#pragma once

#include "clients/declarations.hpp"
#include "sim.hpp"

namespace shmtensor::sim {

struct Pool {
  int device = 0;
  int handle_types = 0;
  std::uint64_t id = 0;
  bool imported = false;
  bool is_default = false;
  std::map<int, std::uint64_t> attributes = {{1, 1}, {2, 1}, {3, 1}, {4, 0}};
  std::map<int, int> access;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
};

cuda::PoolHandle add_pool(Pool pool);
/// Null if it does not exist.
Pool* find_pool(cuda::PoolHandle handle);
/// Gives memory an address, and counts it as the pool's.
Result place(DevicePtr* out, std::uint64_t size, cuda::PoolHandle handle,
             std::shared_ptr<Physical> memory);

template <typename Body>
Result with_pool(const char* name, cuda::PoolHandle handle, Body&& body) {
  return call(name, Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    Pool* const pool = find_pool(handle);
    return pool != nullptr ? body(*pool) : cuda::kInvalidValue;
  });
}

}  // namespace shmtensor::sim
