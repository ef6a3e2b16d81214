#include "bindings/transfer/write_message.hpp"

#include <cerrno>
#include <cstddef>
#include <span>

#include "bindings/support/gil.hpp"
#include "os/write_parts.hpp"

namespace shmtensor::python {
namespace {

class Bytes {
 public:
  explicit Bytes(const py::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) {
      throw py::error_already_set();
    }
  }
  ~Bytes() { PyBuffer_Release(&buffer_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  [[nodiscard]] std::span<const std::byte> all() const noexcept {
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_;
};

}  // namespace

void write_message(int fd, const py::object& header, const py::object& content) {
  const Bytes head(header);
  const Bytes body(content);
  WriteParts parts(head.all(), body.all());
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
