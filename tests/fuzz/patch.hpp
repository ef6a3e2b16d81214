// Words with which another process overwrites shared memory.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "base/error.hpp"
#include "input.hpp"
#include "os/fd.hpp"

namespace shmtensor::fuzz {

/// A part of a file in which patches make sense.
struct Target {
  const Fd& file;
  std::uint64_t offset;
  std::uint64_t size;
};

inline std::uint64_t take_value(Input& input) {
  // Numbers that often expose errors are more frequent than others.
  const auto kind = input.take<std::uint8_t>();
  const auto value = input.take<std::uint64_t>();
  switch (kind % 4) {
    case 0:
      return ~std::uint64_t{0};
    case 1:
      return std::uint64_t{1} << (value % 64);
    case 2:
      return value & 0xffff;
    default:
      return value;
  }
}

inline void patch(const Target& target, Input& input) {
  const auto at = target.offset + input.take<std::uint16_t>() * std::uint64_t{8} % target.size;
  const std::uint64_t value = take_value(input);
  if (::pwrite(target.file.get(), &value, sizeof value, static_cast<off_t>(at)) < 0) {
    throw_os("write a patch");
  }
}

}  // namespace shmtensor::fuzz
