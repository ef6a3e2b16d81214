// pybind11 in a forked child.
#pragma once

namespace shmtensor::python {

/// On free-threaded Python each call of a pybind11 function locks a mutex that all pybind11 modules
/// share, and a fork may copy the mutex while a thread that does not exist in the child has it: the
/// child would wait indefinitely. This makes each forked child reset the mutex. To be called once.
void reset_pybind_mutex_after_fork();

}  // namespace shmtensor::python
