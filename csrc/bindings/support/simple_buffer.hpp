// The bytes of a Python object that has the buffer protocol.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Keeps a buffer that is contiguous, whatever its format. Throws Python's BufferError or
/// TypeError.
/// Threads: one, with the GIL; the bytes may be read without it.
class SimpleBuffer {
 public:
  explicit SimpleBuffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &buffer_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~SimpleBuffer() { PyBuffer_Release(&buffer_); }
  SimpleBuffer(const SimpleBuffer&) = delete;
  SimpleBuffer& operator=(const SimpleBuffer&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }
  [[nodiscard]] bool read_only() const noexcept { return buffer_.readonly != 0; }

 private:
  Py_buffer buffer_{};
};

}  // namespace shmtensor::python
