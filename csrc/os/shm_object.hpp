// Named shared files under /dev/shm (POSIX shared memory objects).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// Creates the object; it must not exist. Mode 0600.
[[nodiscard]] Fd create_shm(const std::string& name);

/// Opens an existing object for reading and writing.
[[nodiscard]] Fd open_shm(const std::string& name);

/// True when the object existed.
bool unlink_shm(const std::string& name) noexcept;

/// Names in /dev/shm that begin with `prefix` and belong to this user. Throws OsError when
/// descriptors or memory are short.
[[nodiscard]] std::vector<std::string> list_shm(const std::string& prefix);

/// Has any process the object open for writing, or mapped by way of such an open? Seen across all
/// namespaces and users. Nothing when it cannot be told.
[[nodiscard]] std::optional<bool> shm_in_use(const std::string& name) noexcept;

/// Removes the object's name unless some process uses it, or that cannot be told. True when it was
/// removed. For names that are never used a second time.
bool unlink_unused_shm(const std::string& name) noexcept;

struct ShmSpace {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

/// How big /dev/shm is and what is left of it. Zeros when it cannot be told.
[[nodiscard]] ShmSpace shm_space() noexcept;

}  // namespace shmtensor
