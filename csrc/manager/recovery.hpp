// Finds the objects that a killed manager, or a killed session, left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arena/segment.hpp"
#include "arena/session_memory.hpp"

namespace shmtensor {

/// Throws SessionError, because the session may have a manager whose address this process cannot
/// reach.
[[noreturn]] void throw_lives_elsewhere();

/// Returns the memory of a session, opened through a process of this user that has it open; null if
/// none is visible. Throws SessionError if that process is in another network namespace, unless
/// the session is in a directory, and OsError if descriptors or memory are too short for the
/// search.
[[nodiscard]] std::unique_ptr<SessionMemory> recover_session(const SessionId& session);

struct FoundArenas {
  std::vector<std::unique_ptr<Segment>> segments;
  bool all = true;  ///< false if descriptors or memory were too short
};

/// Returns every arena of a session that has a name or that a process of this user has open.
[[nodiscard]] FoundArenas recover_arenas(const SessionId& session);

/// Takes ownership of the file of a removed name. Closing the file releases its memory to the
/// system, which takes a while if there is much of it.
using TakeFile = std::function<void(Fd)>;

/// Removes the names in /dev/shm of sessions that have neither a manager nor a living member; those
/// of another PID namespace, whose processes are not visible here, if the system reports that no
/// process has one of them open. Returns the removed names; with `dry_run`, removes nothing and
/// returns the names that would be removed.
std::vector<std::string> sweep_names(bool dry_run, const TakeFile& take = {});

/// Removes the names of a session's arenas whose creator was killed before it registered them.
void remove_unregistered(const SessionId& session,
                         const std::function<bool(ArenaNumber)>& is_registered);

/// Removes the names in /dev/shm of a session that is started again under its old id, after all its
/// processes and the manager were killed simultaneously. The names would collide with its first
/// arenas. Names of another PID namespace as above.
void remove_names_of(const SessionId& session, const TakeFile& take);

}  // namespace shmtensor
