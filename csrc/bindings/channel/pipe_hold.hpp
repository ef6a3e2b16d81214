// This process's part in an end of a pipe.
#pragma once

#include "bindings/support/python.hpp"
#include "os/mutex.hpp"
#include "session/held_block.hpp"

namespace shmtensor::python {

/// Has a reference to the block of an end. Not a storage, because `close` must end it now: on a
/// free-threaded build, an object that one thread has made and another one gives up is deleted when
/// the first one runs next.
/// Threads: all members may be called simultaneously.
class PipeHold {
 public:
  explicit PipeHold(const py::object& storage);
  PipeHold(const PipeHold&) = delete;
  PipeHold& operator=(const PipeHold&) = delete;
  ~PipeHold() { close(); }

  /// Returns a storage over the block, for a message; None after `close`.
  [[nodiscard]] py::object storage();
  /// Returns true if no process has the end any more, nor does a message carry it.
  bool close() noexcept;

 private:
  Mutex mutex_;
  HeldBlock block_ GUARDED_BY(mutex_);
};

void add_pipes(py::module_& module);

}  // namespace shmtensor::python
