// A user's file, mapped.
#pragma once

#include <cstdint>
#include <string>

#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

struct UserFile {
  Mapping mapping;
  FileIdentity identity;
  std::uint64_t size = 0;  ///< bytes that may be touched
};

/// Maps `size` bytes of the file, 0 for all of it. With `writable` the file is made, and extended,
/// if need be, its blocks reserved. The descriptor is closed. Throws OsError.
[[nodiscard]] UserFile map_user_file(const std::string& path, std::uint64_t size, Access access);

}  // namespace shmtensor
