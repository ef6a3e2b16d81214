#include "os/procfs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "os/process.hpp"
#include "os/same_user.hpp"

namespace shmtensor {
namespace {

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

// A file that cannot be opened because descriptors or memory are short must not count as absent.
void throw_if_short(const std::string& path) {
  if (is_shortage(errno)) throw_os("read " + path);
}

Folder open_folder(const std::string& path) {
  Folder folder(::opendir(path.c_str()), ::closedir);
  if (!folder) throw_if_short(path);
  return folder;
}

// Returns the number that is the entry's name, or 0.
pid_t number_of(const dirent& entry) noexcept {
  pid_t number = 0;
  const char* end = entry.d_name + std::strlen(entry.d_name);
  return std::from_chars(entry.d_name, end, number).ptr == end ? number : 0;
}

// Returns the thread under whose number /proc shows the process's files, when it does not show them
// under the process's own number.
pid_t remaining_thread(pid_t pid) {
  if (!lacks_first_thread(pid)) return 0;
  const Folder folder = open_folder("/proc/" + std::to_string(pid) + "/task");
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const pid_t thread = number_of(*entry);
    if (thread > 0 && thread != pid) return thread;
  }
  return 0;
}

// `any` is set to true if the process has any file open, here and below.
std::vector<OpenFile> open_files_as(pid_t thread, const std::string& prefix, bool& any) {
  std::vector<OpenFile> files;
  const std::string path = "/proc/" + std::to_string(thread) + "/fd";
  const Folder folder = open_folder(path);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    std::array<char, 512> target{};
    const ssize_t size =
        ::readlinkat(::dirfd(folder.get()), entry->d_name, target.data(), target.size());
    if (size < 0) throw_if_short(path);  // or it was closed
    if (size <= 0) continue;
    any = true;
    std::string name(target.data(), static_cast<std::size_t>(size));
    if (name.starts_with(prefix)) files.push_back({std::move(name), path + "/" + entry->d_name});
  }
  return files;
}

std::optional<bool> maps_file_as(pid_t thread, const std::string& name, bool& any) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(
      std::fopen(("/proc/" + std::to_string(thread) + "/maps").c_str(), "re"), std::fclose);
  // A process that has exited, or has no memory (a zombie, a kernel thread), maps nothing.
  if (!maps) {
    const bool none =
        errno == ESRCH || (errno == ENOENT && ::kill(thread, 0) != 0 && errno == ESRCH);
    return none ? std::optional(false) : std::nullopt;
  }
  char* line = nullptr;
  std::size_t capacity = 0;
  bool found = false;
  while (!found && ::getline(&line, &capacity, maps.get()) > 0) {
    any = true;
    found = std::strstr(line, name.c_str()) != nullptr;
  }
  const bool unreadable = !found && std::ferror(maps.get()) != 0 && errno != ESRCH;
  std::free(line);
  return unreadable ? std::nullopt : std::optional(found);
}

}  // namespace

std::optional<bool> maps_file(pid_t pid, const std::string& name) {
  bool any = false;
  const std::optional<bool> found = maps_file_as(pid, name, any);
  if (any || !found) return found;
  try {
    const pid_t thread = remaining_thread(pid);
    return thread != 0 ? maps_file_as(thread, name, any) : found;
  } catch (const OsError&) {
    return std::nullopt;
  }
}

std::vector<pid_t> own_processes() {
  std::vector<pid_t> pids;
  const Folder proc = open_folder("/proc");
  if (!proc) return pids;
  const bool ambiguous = uid_is_ambiguous();
  while (const dirent* entry = ::readdir(proc.get())) {
    const pid_t pid = number_of(*entry);
    if (pid == 0) continue;
    struct stat info{};
    if (::fstatat(::dirfd(proc.get()), entry->d_name, &info, 0) != 0) {
      throw_if_short("/proc");  // or the process has ended
    } else if (info.st_uid == ::geteuid() && (!ambiguous || ::kill(pid, 0) == 0)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

std::vector<OpenFile> open_files(pid_t pid, const std::string& prefix) {
  bool any = false;
  std::vector<OpenFile> files = open_files_as(pid, prefix, any);
  const pid_t thread = any ? 0 : remaining_thread(pid);
  return thread != 0 ? open_files_as(thread, prefix, any) : files;
}

Fd open_path(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) throw_if_short(path);
  return file;
}

}  // namespace shmtensor
