// Finding what a killed manager, or a killed session, left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"

namespace shmtensor {

/// Throws SessionError: this network namespace is not the session's, which may have a manager
/// there.
[[noreturn]] void throw_lives_elsewhere();

/// The memory of a session, taken from a process of this user that has it open; null when there is
/// none to be seen. Throws SessionError when it is in another network namespace, OsError when
/// descriptors or memory are too short to tell.
[[nodiscard]] std::unique_ptr<SessionMemory> recover_session(const SessionId& session);

struct FoundArenas {
  std::vector<std::unique_ptr<Segment>> segments;
  bool all = true;  ///< false when descriptors or memory were too short to tell
};

/// Every arena of a session that a process of this user has open or that has a name.
[[nodiscard]] FoundArenas recover_arenas(const SessionId& session);

/// Takes the file of a name that was removed: its memory goes back to the system when it is closed,
/// which takes a while if there is much of it.
using TakeFile = std::function<void(Fd)>;

/// Removes the names in /dev/shm of sessions that have neither a manager nor a living member. Names
/// made in another PID namespace are left: their processes cannot be seen from here. Returns what
/// was removed; with `dry_run`, what would be.
std::vector<std::string> sweep_names(bool dry_run, const TakeFile& take = {});

/// Removes the names of a session's arenas whose maker was killed before it could register them.
void remove_unregistered(const SessionId& session,
                         const std::function<bool(ArenaNumber)>& is_registered);

/// Removes the names in /dev/shm of a session that begins anew under its old id: all its processes,
/// the manager too, were killed at once. They would stand in the way of its first arenas. Those
/// made in another PID namespace are left, as above.
void remove_names_of(const SessionId& session, const TakeFile& take);

}  // namespace shmtensor
