// Reads /proc: the processes of this user, their open files and their mappings.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// Return true if the process maps a file whose /proc/PID/maps entry contains `name`. Nothing if
/// that cannot be determined.
[[nodiscard]] std::optional<bool> maps_file(pid_t pid, const std::string& name);

/// Returns the processes of this user that are visible in /proc. This function and the two below
/// throw OsError if descriptors or memory are short.
[[nodiscard]] std::vector<pid_t> own_processes();

struct OpenFile {
  std::string name;  ///< the target of /proc/PID/fd/N
  std::string path;  ///< "/proc/PID/fd/N", with which the file can be opened again
};

/// Returns the open files of a process whose name begins with `prefix`.
[[nodiscard]] std::vector<OpenFile> open_files(pid_t pid, const std::string& prefix);

/// Opens `path` for reading and writing, close-on-exec. Returns an empty Fd if the path does not
/// exist or is not accessible.
[[nodiscard]] Fd open_path(const std::string& path);

}  // namespace shmtensor
