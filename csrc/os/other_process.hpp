// What /proc tells of other processes: which there are, and what they have open and mapped.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// Does the process map a file whose /proc/PID/maps entry contains `name`? Nothing when that cannot
/// be told.
[[nodiscard]] std::optional<bool> maps_file(pid_t pid, const std::string& name) noexcept;

/// Processes of this user that can be seen in /proc. This and the two below throw OsError when
/// descriptors or memory are short.
[[nodiscard]] std::vector<pid_t> own_processes();

struct OpenFile {
  std::string name;  ///< what /proc/PID/fd/N points to
  std::string path;  ///< "/proc/PID/fd/N", to open it again
};

/// The open descriptors of a process whose name begins with `prefix`.
[[nodiscard]] std::vector<OpenFile> open_files(pid_t pid, const std::string& prefix);

/// Opens `path` for reading and writing, close-on-exec; empty when it is gone or hidden.
[[nodiscard]] Fd open_path(const std::string& path);

}  // namespace shmtensor
