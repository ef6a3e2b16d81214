#include "bindings/support/errors.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "cuda/driver.hpp"

namespace shmtensor::python {
namespace {

// Looked up each time: errors are rare, and a reference that is never released is a leak on exit.
void raise(const char* class_name, const char* text) {
  const py::object type = py::module_::import("shmtensor.errors").attr(class_name);
  PyErr_SetString(type.ptr(), text);
}

// CudaError(text, code): the code is the driver's.
void raise_cuda(const char* class_name, const cuda::CudaError& error) {
  const py::object type = py::module_::import("shmtensor.errors").attr(class_name);
  const py::tuple arguments = py::make_tuple(error.what(), error.code());
  PyErr_SetObject(type.ptr(), arguments.ptr());
}

// OSError returns an object of one of its subclasses, such as FileNotFoundError. Up to Python 3.10
// `except` matches the class that is passed here.
void raise_os_error(const OsError& error) {
  const py::handle base(PyExc_OSError);
  const py::object made = base(error.code(), error.what());
  PyErr_SetObject(py::type::handle_of(made).ptr(), made.ptr());
}

}  // namespace

void translate_exception() noexcept {
  try {
    try {
      throw;
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const cuda::ProducerGone& error) {
      raise_cuda("ProducerGone", error);
    } catch (const cuda::CudaUnavailable& error) {
      raise_cuda("CudaUnavailable", error);
    } catch (const cuda::CudaError& error) {
      raise_cuda("CudaError", error);
    } catch (const StaleHandle& error) {
      raise("StaleHandleError", error.what());
    } catch (const OutOfMemory& error) {
      raise("OutOfSharedMemory", error.what());
    } catch (const SessionError& error) {
      raise("SessionError", error.what());
    } catch (const CorruptData& error) {
      raise("CorruptDataError", error.what());
    } catch (const OsError& error) {
      raise_os_error(error);
    } catch (const Error& error) {
      raise("ShmTensorError", error.what());
    } catch (const py::builtin_exception& error) {
      error.set_error();
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  } catch (py::error_already_set& error) {
    error.restore();  // the class was not found
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (...) {
    PyErr_SetString(PyExc_SystemError, "shmtensor: an error could not be reported");
  }
}

void add_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr error) {
    // The unwinding by pthread_exit, which pybind11 rethrows with libstdc++ only.
    if (error == nullptr) stay_until_exit();
    try {
      std::rethrow_exception(std::move(error));
    } catch (...) {
      translate_exception();
    }
  });
}

}  // namespace shmtensor::python
