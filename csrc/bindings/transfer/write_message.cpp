#include "bindings/transfer/write_message.hpp"

#include <cerrno>

#include "bindings/support/gil.hpp"
#include "bindings/support/simple_buffer.hpp"
#include "os/write_parts.hpp"

namespace shmtensor::python {
void write_message(int fd, const py::object& header, const py::object& content) {
  const SimpleBuffer head(header.ptr());
  const SimpleBuffer body(content.ptr());
  WriteParts parts(head.bytes(), body.bytes());
  for (;;) {
    int error = 0;
    {
      const GilRelease release;
      error = parts.write_to(fd);
    }
    if (error != 0 && error != EINTR) {
      errno = error;
      PyErr_SetFromErrno(PyExc_OSError);
      throw py::error_already_set();
    }
    if (parts.done()) return;
    // A signal that comes after a part was written ends the call with that part, without an error.
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace shmtensor::python
