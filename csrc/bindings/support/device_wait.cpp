#include "bindings/support/device_wait.hpp"

#include <cstdint>
#include <string>

#include "bindings/support/gil.hpp"
#include "cuda/contexts.hpp"

namespace shmtensor::python {

namespace {

/// Calls `ask` with the library's module `cuda`; false if the program has not imported the library,
/// or not completely.
template <typename Ask>
bool answer_of(const char* library, Ask&& ask) noexcept {
  try {
    const auto name = py::reinterpret_steal<py::object>(PyUnicode_InternFromString(library));
    const auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(name.ptr()));
    return module && ask(py::object(module.attr("cuda")));
  } catch (...) {
    return false;
  }
}

}  // namespace

// Destructors call this too: it imports nothing, and keeps a Python exception that is set.
bool is_capturing() noexcept {
  const py::error_scope kept;
  const bool in_torch = answer_of("torch", [](const py::object& torch) {
    return torch.attr("is_initialized")().cast<bool>() &&
           torch.attr("is_current_stream_capturing")().cast<bool>();
  });
  return in_torch || answer_of("cupy", [](const py::object& cupy) {
           const auto device = cupy.attr("runtime").attr("getDevice")().cast<int>();
           const auto stream = cupy.attr("get_current_stream")().attr("ptr").cast<std::uint64_t>();
           return cuda::Gpu::get(device).is_capturing(cuda::to_stream(stream));
         });
}

void wait_for_device(int device, cuda::DevicePtr memory) {
  if (is_capturing()) {
    throw cuda::CudaError(cuda::kCaptureUnsupported,
                          "cannot wait for cuda:" + std::to_string(device) +
                              " while this thread captures a CUDA graph: send and copy tensors "
                              "before or after the capture");
  }
  const GilRelease release;
  cuda::synchronize_users(cuda::Gpu::get(device), memory);
}

}  // namespace shmtensor::python
