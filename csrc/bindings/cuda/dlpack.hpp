// DLPack's structures, versions 0 and 1, and the table of functions of version 1.3:
// https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace shmtensor::python::dlpack {

struct Device {
  std::int32_t type;
  std::int32_t number;
};

struct DlTensor {
  void* data;
  Device device;
  std::int32_t dims;
  struct {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

struct Plain {
  DlTensor tensor;
  void* context;
  void (*deleter)(Plain*);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct Versioned {
  Version version;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  DlTensor tensor;
};

/// DLPackExchangeAPI. Those that return an int return 0, or -1 with a Python exception set.
struct ExchangeApi {
  using SetError = void (*)(void* context, const char* kind, const char* message);

  Version version;
  ExchangeApi* previous;
  /// Makes a tensor of the prototype's dtype, shape and device; reports errors by the function
  /// only.
  int (*allocate)(DlTensor* prototype, Versioned** out, void* context, SetError set_error);
  int (*from_object)(void* object, Versioned** out);
  /// Takes over the tensor.
  int (*to_object)(Versioned* tensor, void** out);
  /// The result is valid while the object lives; it has no place for the read-only flag.
  int (*borrow_from_object)(void* object, DlTensor* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device_number, void** out);
};

inline constexpr std::int32_t kHost = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::uint64_t kReadOnly = 1;

/// The name of a capsule until a consumer takes over its tensor.
constexpr const char* name_of(const Plain*) { return "dltensor"; }
constexpr const char* name_of(const Versioned*) { return "dltensor_versioned"; }

}  // namespace shmtensor::python::dlpack
