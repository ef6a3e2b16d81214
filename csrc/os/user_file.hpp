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

/// Maps `size` bytes of the file, 0 for all of it. To write, the file is made or extended if need
/// be, the blocks that are added reserved. The descriptor is closed. Throws OsError.
[[nodiscard]] UserFile map_user_file(const std::string& path, std::uint64_t size, Access access);

}  // namespace shmtensor
