// As csrc/sync/spin.hpp; no thread spins, so that each comes to its sleep.
#pragma once

namespace shmtensor::sync {

template <typename Ready>
[[nodiscard]] bool spin_until(Ready&& ready) noexcept {
  return ready();
}

}  // namespace shmtensor::sync
