// Writing to a pipe or socket as multiprocessing's connections do.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Writes all of header and content, with `lock` held unless it is None. Without the GIL while the
/// system writes, and between that and the return no signal handler of Python's runs: an exception
/// says that the message was not written whole. Throws what `os.write` raises.
void write_message(int fd, const py::object& header, const py::object& content,
                   const py::object& lock);

}  // namespace shmtensor::python
