// Writing to a pipe or socket as multiprocessing's connections do.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Writes all of header and content. Releases the GIL while the system writes. No signal handler of
/// Python's runs between that and the return: an exception means that the message was not written
/// whole. Throws the errors of `os.write`.
void write_message(int fd, const py::object& header, const py::object& content);

}  // namespace shmtensor::python
