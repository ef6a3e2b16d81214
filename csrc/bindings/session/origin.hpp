// The process in which an object was made.
#pragma once

#include <cstdint>

#include "os/fork_mark.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {

/// A forked child runs on with its parent's objects, which are not its own to complete.
class Origin {
 public:
  Origin() : forks_(Runtime::get().forks()) {}

  /// Return false in a fork, or a raw copy, of the process.
  [[nodiscard]] bool is_this_process() const noexcept {
    return forks_ == Runtime::get().forks() && !is_raw_copy();
  }

 private:
  std::uint32_t forks_;
};

}  // namespace shmtensor::python
