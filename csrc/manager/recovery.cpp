#include "manager/recovery.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "manager/manager_address.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

constexpr std::size_t kHexDigits = 32;

// "shmtensor-<hex>-<number>", with or without the " (deleted)" that /proc adds to a memfd.
std::optional<ArenaNumber> number_in(std::string_view name, const SessionId& session) {
  const std::string prefix = object_name(session) + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  ArenaNumber number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
  if (error != std::errc() || (!rest.empty() && rest != " (deleted)")) return std::nullopt;
  return number;
}

bool made_in_this_namespace(const std::string& name) {
  try {
    const Fd file = open_shm(name);
    if (file_size(file) < page_size()) return true;  // no header yet, see below
    const Mapping first = Mapping::of_file(file, 0, page_size(), Access::read_only);
    const auto& header = *reinterpret_cast<const ArenaHeader*>(first.data());
    // If the creator of a named object was killed before it wrote the header, the object belongs to
    // no namespace.
    return header.magic != kArenaMagic || header.pid_namespace == pid_namespace();
  } catch (const Error&) {
    return false;
  }
}

// If it cannot be determined whether a process has the object open, as on a system without leases,
// the processes of other namespaces may, which are not visible here.
bool remove_name(const std::string& name, const TakeFile& take) {
  Fd file = unlink_unused_shm(name);
  if (!file && (!made_in_this_namespace(name) || !unlink_shm(name))) return false;
  try {
    Fd writable = file && take ? open_path("/proc/self/fd/" + std::to_string(file.get())) : Fd();
    if (writable) take(std::move(writable));
  } catch (const Error&) {
    // No descriptor is left: closing releases its memory immediately.
  }
  return true;
}

// All names of a session are treated alike. Nothing if it cannot be determined for one of them.
std::optional<bool> has_open(const std::vector<std::string>& names) {
  bool known = true;
  for (const std::string& name : names) {
    const std::optional<bool> used = shm_in_use(name);
    if (used.value_or(false)) return true;
    known = known && used;
  }
  return known ? std::optional(false) : std::nullopt;
}

// If no process has a name open, a member may still have an unread message of a dead process; such
// a member maps the session's memory. A process whose mappings are hidden from this user counts
// only if the system does not report which names are open, either.
bool in_use(const std::string& session, const std::vector<std::string>& names) {
  const std::optional<bool> open = has_open(names);
  if (open.value_or(false)) return true;
  const std::vector<pid_t> pids = own_processes();
  return std::any_of(pids.begin(), pids.end(),
                     [&](pid_t pid) { return maps_file(pid, session + "-").value_or(!open); });
}

// While it is held, no process can start the session: neither under an abstract name, nor in the
// directory of this process.
class Reservation {
 public:
  explicit Reservation(const std::string& session)
      : session_(session), directory_(runtime_directory()), name_(bind_to(session)) {
    if (name_ && directory_ != nullptr) file_ = directory_->listen(session);
  }
  ~Reservation() {
    if (file_) directory_->remove(session_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  [[nodiscard]] bool succeeded() const noexcept {
    return name_ && (directory_ == nullptr || file_);
  }

 private:
  const std::string& session_;
  const SocketDirectory* directory_;
  std::optional<Fd> name_;
  std::optional<Fd> file_;
};

}  // namespace

void throw_lives_elsewhere() {
  throw SessionError(
      "the session is in another network namespace or SHMTENSOR_RUNTIME_DIR, so this process "
      "cannot reach its manager; unset SHMTENSOR_SESSION to start another session, or run the "
      "process in that namespace or with that directory");
}

std::unique_ptr<SessionMemory> recover_session(const SessionId& session) {
  bool elsewhere = false;
  for (const pid_t pid : own_processes()) {
    for (const OpenFile& found : open_files(pid, "/memfd:" + SessionMemory::file_name(session))) {
      Fd file = open_path(found.path);
      if (!file) continue;
      try {
        auto memory = SessionMemory::open(session, std::move(file));
        if (runtime_directory() != nullptr || !in_other_network(pid)) return memory;
        elsewhere = true;
      } catch (const SessionError&) {
        // The content does not match the name: continue the search.
      }
    }
  }
  if (elsewhere) throw_lives_elsewhere();
  return nullptr;
}

FoundArenas recover_arenas(const SessionId& session) {
  std::map<ArenaNumber, std::unique_ptr<Segment>> found;
  FoundArenas result;
  const auto look = [&](auto&& body) {
    try {
      body();
    } catch (const OsError& error) {  // or it was removed
      if (is_shortage(error.code())) result.all = false;
    } catch (const Error&) {
      // The content does not match the name: continue the search.
    }
  };
  const auto keep = [&](std::string_view name, auto&& open) {
    const std::optional<ArenaNumber> number = number_in(name, session);
    if (!number || found.contains(*number)) return;
    look([&] { found.emplace(*number, open(*number)); });
  };
  // Named arenas first, because they keep no descriptor. With the descriptors of memfds this
  // process may reach its descriptor limit.
  look([&] {
    for (const std::string& name : list_shm(object_name(session) + "-")) {
      keep(name, [&](ArenaNumber number) { return Segment::open_named(session, number); });
    }
  });
  const std::string memfd = "/memfd:";
  look([&] {
    for (const pid_t pid : own_processes()) {
      for (const OpenFile& file : open_files(pid, memfd + object_name(session))) {
        keep(std::string_view(file.name).substr(memfd.size()), [&](ArenaNumber number) {
          return Segment::open(session, number, open_path(file.path));
        });
      }
    }
  });
  for (auto& [number, segment] : found) result.segments.push_back(std::move(segment));
  return result;
}

std::vector<std::string> sweep_names(bool dry_run, const TakeFile& take) {
  std::map<std::string, std::vector<std::string>> sessions;
  for (const std::string& name : list_shm(std::string(kObjectPrefix))) {
    sessions[name.substr(0, kObjectPrefix.size() + kHexDigits)].push_back(name);
  }
  std::vector<std::string> removed;
  for (const auto& [session, names] : sessions) {
    if (in_use(session, names)) continue;
    // The socket of a manager has the session's name. Its session counts as alive even if the
    // manager is stopped or about to end, because the manager removes the names itself. No session
    // can start under that name in this time either; a session that started since the search has
    // members with names open, or its manager here. The sockets are bound after the search, which
    // takes long, so that another sweep that starts now skips the session.
    const Reservation reservation(session);
    const std::optional<bool> open = has_open(names);
    if (!reservation.succeeded() || open.value_or(false)) continue;
    for (const std::string& name : names) {
      const bool would = open || made_in_this_namespace(name);
      if (dry_run ? would : remove_name(name, take)) removed.push_back(name);
    }
  }
  return removed;
}

void remove_unregistered(const SessionId& session,
                         const std::function<bool(ArenaNumber)>& is_registered) {
  std::vector<std::string> names;
  try {
    names = list_shm(object_name(session) + "-");
  } catch (const OsError&) {
    return;  // after the next death
  }
  for (const std::string& name : names) {
    const std::optional<ArenaNumber> number = number_in(name, session);
    if (number && !is_registered(*number)) unlink_unused_shm(name);
  }
}

void remove_names_of(const SessionId& session, const TakeFile& take) {
  for (const std::string& name : list_shm(object_name(session) + "-")) {
    remove_name(name, take);
  }
}

}  // namespace shmtensor
