// The objects that stay in a session when its last process has ended: those of kept names.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arena/session_memory.hpp"

namespace shmtensor {

/// The kept names of a session that has had no process for a while.
struct KeptNames {
  /// Finds the names whose time is not over after `idle` milliseconds without a process. Throws
  /// OsError if the table cannot be mapped.
  [[nodiscard]] static KeptNames of(const SessionMemory& memory, std::uint64_t idle);

  /// Removes all other names from the table, and what a killed process left of a change. Called
  /// when no process can use the table; may be repeated.
  void remove_others(const SessionMemory& memory) const;

  /// Milliseconds until the next one's time is over. Nothing if no name is kept.
  std::optional<std::uint64_t> left;
  std::vector<bool> marks;  ///< `NameTable::mark_of` of the objects that stay, less `kFirstKept`
};

}  // namespace shmtensor
