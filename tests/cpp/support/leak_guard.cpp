#include "support/leak_guard.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "support/names.hpp"
#include "support/wait.hpp"

namespace shmtensor::testing {
namespace {

std::map<int, std::string> open_now() {
  std::map<int, std::string> files;
  for (const OpenFile& file : open_files(::getpid(), "")) {
    const int number = std::stoi(file.path.substr(file.path.find_last_of('/') + 1));
    // The listing's own descriptor is closed by now.
    if (::access(file.path.c_str(), F_OK) == 0) files[number] = file.name;
  }
  return files;
}

template <typename Visit>
void for_each_line_with(const char* path, const std::string& text, Visit&& visit) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.find(text) != std::string::npos) visit(line);
  }
}

bool any_child() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace

Belongings Belongings::now() {
  Belongings all;
  all.files = open_now();
  for_each_line_with("/proc/self/maps", run_prefix(), [&](const std::string&) { ++all.mappings; });
  all.names = list_shm(run_prefix());
  for_each_line_with("/proc/net/unix", "@" + run_prefix(), [&](const std::string& line) {
    all.sockets.push_back(line.substr(line.find('@')));
  });
  all.has_children = any_child();
  return all;
}

std::vector<std::string> Belongings::since(const Belongings& before) const {
  std::vector<std::string> found;
  for (const auto& [number, name] : files) {
    const auto at = before.files.find(number);
    if (at == before.files.end() || at->second != name) {
      found.push_back("descriptor " + std::to_string(number) + ": " + name);
    }
  }
  if (mappings > before.mappings) {
    found.push_back(std::to_string(mappings - before.mappings) + " mappings");
  }
  const auto compare = [&](const char* what, const auto& here, const auto& there) {
    for (const std::string& name : here) {
      if (std::find(there.begin(), there.end(), name) == there.end()) {
        found.push_back(std::string(what) + " " + name);
      }
    }
  };
  compare("/dev/shm entry", names, before.names);
  compare("socket", sockets, before.sockets);
  if (has_children && !before.has_children) found.emplace_back("a child process");
  return found;
}

void LeakGuard::OnTestStart(const ::testing::TestInfo&) { before_ = Belongings::now(); }

void LeakGuard::OnTestEnd(const ::testing::TestInfo&) {
  std::vector<std::string> found;
  const auto look = [&] { found = Belongings::now().since(before_); };
  look();
  // A manager of another session that starts binds the address of a dead session for a moment, to
  // remove its names.
  const auto is_address = [](const std::string& line) { return line.starts_with("socket "); };
  static_cast<void>(eventually(
      [&] {
        if (found.empty() || !std::ranges::all_of(found, is_address)) return true;
        look();
        return false;
      },
      std::chrono::seconds(2)));
  for (const std::string& line : found) {
    ADD_FAILURE() << "left behind: " << line;
  }
}

}  // namespace shmtensor::testing
