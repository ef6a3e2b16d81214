// Named shared files under /dev/shm (POSIX shared memory objects).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// Creates the object with mode 0600. Fails if it exists.
[[nodiscard]] Fd create_shm(const std::string& name);

/// Opens an existing object for reading and writing.
[[nodiscard]] Fd open_shm(const std::string& name);

/// Return true if the object existed.
bool unlink_shm(const std::string& name) noexcept;

/// Returns the names in /dev/shm that begin with `prefix` and belong to this user. Throws OsError
/// if descriptors or memory are short.
[[nodiscard]] std::vector<std::string> list_shm(const std::string& prefix);

/// Return true if a process, in any namespace and of any user, has the object open for writing or
/// mapped from such an open. Nothing if that cannot be determined.
[[nodiscard]] std::optional<bool> shm_in_use(const std::string& name) noexcept;

/// Removes the name of the object unless a process, in any namespace and of any user, has it open
/// for writing or mapped from such an open, or that cannot be determined. Returns the object, open
/// for reading, if it was removed.
Fd unlink_unused_shm(const std::string& name) noexcept;

struct ShmSpace {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

/// Returns the total and free bytes of /dev/shm; zeros if they cannot be determined.
[[nodiscard]] ShmSpace shm_space() noexcept;

}  // namespace shmtensor
