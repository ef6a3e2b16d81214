// Observes a session without joining it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "arena/layout.hpp"
#include "arena/session_memory.hpp"
#include "manager/connection.hpp"

namespace shmtensor {

/// Uses no slot and keeps no memory alive.
/// Threads: one.
class Observer {
 public:
  struct Process {
    SlotNumber slot = 0;
    std::int32_t pid = 0;
  };
  struct ArenaSummary {
    ArenaNumber number = 0;
    SlotNumber owner = kNoSlot;  ///< kNoSlot: the owner is dead
    Strategy strategy = Strategy::file_descriptor;
    Statistics counts;
  };
  struct InFlight {
    SlotNumber sender = 0;
    std::int32_t pid = 0;  ///< of the process in the sender's slot now; 0: none
    ArenaNumber arena = 0;
    BlockNumber block = 0;
    std::uint32_t messages = 0;
    std::uint32_t age = 0;  ///< seconds since the last of the messages was sent
  };

  /// Nothing if no manager of this user serves the session. Throws SessionError, OsError.
  static std::optional<Observer> open(const SessionId& id);

  [[nodiscard]] const SessionMemory& memory() const noexcept { return *memory_; }
  [[nodiscard]] std::vector<Process> processes() const;
  [[nodiscard]] std::vector<InFlight> in_flight() const;
  [[nodiscard]] std::vector<ArenaSummary> arenas();
  [[nodiscard]] std::vector<QueueSummary> queues();
  [[nodiscard]] Statistics statistics();
  /// Does what `Session::collect` does, without arenas of this process.
  std::uint64_t collect(std::uint64_t older_than_milliseconds);

 private:
  Observer(Connection connection, std::unique_ptr<SessionMemory> memory)
      : connection_(std::move(connection)), memory_(std::move(memory)) {}

  Connection connection_;
  std::unique_ptr<SessionMemory> memory_;
};

}  // namespace shmtensor
