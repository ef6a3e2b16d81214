#include "manager/manager_address.hpp"

#include <cstdlib>
#include <string>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

const SocketDirectory* open_runtime_directory() {
  const char* path = std::getenv(kDirectoryVariable);
  if (path == nullptr || *path == '\0') return nullptr;
  try {
    return new SocketDirectory(path, std::string(kObjectPrefix), object_name({}).size());
  } catch (const Error& error) {
    throw SessionError(std::string(kDirectoryVariable) + ": " + error.what());
  }
}

}  // namespace

const SocketDirectory* runtime_directory() {
  static const SocketDirectory* const directory = open_runtime_directory();  // never freed
  return directory;
}

std::string manager_address(const SessionId& session) {
  const SocketDirectory* directory = runtime_directory();
  std::string name = object_name(session);
  return directory != nullptr ? directory->path_of(name) : name;
}

std::optional<Fd> listen_as_manager(const SessionId& session) {
  const SocketDirectory* directory = runtime_directory();
  const std::string name = object_name(session);
  return directory != nullptr ? directory->listen(name) : listen_on(name);
}

void remove_manager_file(const SessionId& session) noexcept {
  try {
    if (const SocketDirectory* directory = runtime_directory()) {
      directory->remove(object_name(session));
    }
  } catch (...) {
    // The next process that listens in the directory removes the file.
  }
}

}  // namespace shmtensor
