// pybind11 in a forked child.
#pragma once

namespace shmtensor::python {

/// On free-threaded Python each call of a pybind11 function takes a mutex that all pybind11 modules
/// share and that none of them mends in a forked child. A thread that was handed it while it waited
/// for it, and that fork did not copy, would have it there for ever. To be called once.
void mend_pybind_after_fork();

}  // namespace shmtensor::python
