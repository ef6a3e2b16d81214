// How the functions of the CUDA runtime that CuPy and torch call are made of those of the driver
// that NVIDIA documents. NVIDIA's own runtime uses tables of the driver that are not documented.
//
// The types of both interfaces are the same but for device pointers (void*, CUdeviceptr) and the
// structures that `as` copies.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <mutex>

namespace cudart {

inline constexpr int kMostDevices = 64;

inline thread_local int t_device = 0;  // while no context is current
inline thread_local cudaError_t t_last = cudaSuccess;

template <typename Function>
Function* find(const char* name) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr ? reinterpret_cast<Function*>(::dlsym(library, name)) : nullptr;
}

#define TEXT(name) #name
// A function by the name with its version, to which cuda.h maps the plain one.
#define DRIVER(name) find<decltype(name)>(TEXT(name))

inline cudaError_t noted(cudaError_t code) {
  if (code != cudaSuccess) t_last = code;
  return code;
}

template <typename Function, typename... Arguments>
cudaError_t call(Function* function, Arguments... arguments) {
  if (function == nullptr) return noted(cudaErrorInsufficientDriver);
  return noted(static_cast<cudaError_t>(function(arguments...)));
}

template <typename Function, typename... Arguments>
cudaError_t after_init(Function* function, Arguments... arguments) {
  if (const cudaError_t error = call(DRIVER(cuInit), 0U)) return error;
  return call(function, arguments...);
}

inline cudaError_t primary_context(CUcontext* context, int device) {
  static std::mutex mutex;
  static std::array<CUcontext, kMostDevices> retained;
  if (device < 0 || device >= kMostDevices) return noted(cudaErrorInvalidDevice);
  const std::lock_guard guard(mutex);
  if (retained[device] == nullptr) {
    const auto error = after_init(DRIVER(cuDevicePrimaryCtxRetain), &retained[device], device);
    if (error != cudaSuccess) return error;
  }
  *context = retained[device];
  return cudaSuccess;
}

// The context that is current; otherwise the primary one of the thread's device becomes it.
inline cudaError_t enter() {
  CUcontext context = nullptr;
  if (const cudaError_t error = after_init(DRIVER(cuCtxGetCurrent), &context)) return error;
  if (context != nullptr) return cudaSuccess;
  if (const cudaError_t error = primary_context(&context, t_device)) return error;
  return call(DRIVER(cuCtxSetCurrent), context);
}

template <typename Function, typename... Arguments>
cudaError_t in_context(Function* function, Arguments... arguments) {
  if (const cudaError_t error = enter()) return error;
  return call(function, arguments...);
}

inline CUdeviceptr at(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr* at(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

template <typename To, typename From>
To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace cudart

#define RUNTIME(name, ...) extern "C" cudaError_t name(__VA_ARGS__)
#define FORWARD(name, parameters, driver, ...) \
  extern "C" cudaError_t name parameters { return in_context(DRIVER(driver), __VA_ARGS__); }
