// Maps a file that the user named.
#pragma once

#include <cstdint>
#include <string>

#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

struct MappedFile {
  Mapping mapping;
  FileIdentity identity;
  std::uint64_t size = 0;  ///< accessible bytes
};

/// Maps `size` bytes of the file, 0 for the whole file. If `access` permits writing, the file is
/// created or extended as needed and its new blocks are reserved. The descriptor is closed. Throws
/// OsError.
[[nodiscard]] MappedFile map_file(const std::string& path, std::uint64_t size, Access access);

}  // namespace shmtensor
