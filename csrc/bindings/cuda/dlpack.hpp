// DLPack's structures, versions 0 and 1: https://dmlc.github.io/dlpack/latest/c_api.html
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

struct Versioned {
  struct {
    std::uint32_t major;
    std::uint32_t minor;
  } version;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  DlTensor tensor;
};

inline constexpr std::int32_t kHost = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::uint64_t kReadOnly = 1;

/// The name of a capsule until a consumer takes over its tensor.
constexpr const char* name_of(const Plain*) { return "dltensor"; }
constexpr const char* name_of(const Versioned*) { return "dltensor_versioned"; }

}  // namespace shmtensor::python::dlpack
