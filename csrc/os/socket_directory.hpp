// A directory in which processes listen on socket files. Processes of several containers that mount
// it can connect, unlike by abstract names, which belong to a network namespace.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "os/fd.hpp"

namespace shmtensor {

/// Belongs to this user, and no other user may enter it.
/// Threads: any.
class SocketDirectory {
 public:
  /// Makes the directory if it does not exist. Names of sockets in it begin with `prefix` and have
  /// `name_size` characters. Throws Error if the path is not absolute or too long, or if another
  /// user owns the directory or may enter it, and OsError if it cannot be opened.
  SocketDirectory(std::string path, std::string prefix, std::size_t name_size);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Identifies the directory in all mount namespaces of the machine.
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }

  /// Returns the path of the socket of that name.
  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + '/' + name; }

  /// Listens on a name, after removing the files of sockets on which no process listens. Nothing if
  /// a process listens on it. Throws OsError; Error if another process that does the same does not
  /// finish.
  [[nodiscard]] std::optional<Fd> listen(const std::string& name) const;

  /// Removes the file of a socket that this process listens on.
  void remove(const std::string& name) const;

 private:
  void remove_unused() const;

  std::string path_;
  std::string prefix_;
  FileIdentity identity_;
};

}  // namespace shmtensor
