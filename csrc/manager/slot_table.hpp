// Assigns the slots of a session to processes, and determines which processes have left.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "arena/session_memory.hpp"
#include "arena/slot_set.hpp"
#include "base/ids.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace shmtensor {

/// Threads: one.
class SlotTable {
 public:
  struct Occupant {
    bool taken = false;
    bool forking = false;  ///< the child has not sent its pid
    std::uint32_t incarnation = 0;
    ProcessIdentity process;  ///< pid 0: not visible in this manager's PID namespace
    Fd pidfd;                 ///< empty on kernels before 5.3
    int connection = -1;      ///< descriptor of the connection; -1 if there is none
    std::uint64_t since = 0;  ///< time of assignment in milliseconds
    bool registered = true;   ///< false: its arenas are unknown. It joined an earlier manager, in
                              ///< another PID namespace, and has yet to register them
  };

  explicit SlotTable(const SessionMemory& memory) : memory_(memory) {}

  /// Reads the slot table of an earlier manager. The processes in the slots may be dead by now.
  void take_over();

  /// Assigns a free slot, which gets a new incarnation. Nothing if all slots are in use. Throws
  /// OutOfMemory.
  std::optional<SlotNumber> assign(ProcessIdentity process, std::int32_t parent, Fd pidfd,
                                   int connection);
  /// The same for a child that is about to be forked.
  std::optional<SlotNumber> assign_to_child(std::int32_t parent, int connection);
  /// Records the process in a slot: a forked child has sent its pid, or a member has reconnected.
  void identify(SlotNumber slot, ProcessIdentity process, Fd pidfd);
  /// Cancels the reservation of a slot, so that no process can enter it. Returns false if the
  /// process has entered already.
  [[nodiscard]] bool withdraw(SlotNumber slot);
  void release(SlotNumber slot);

  [[nodiscard]] Occupant& operator[](SlotNumber slot) { return occupants_[slot % kMaxSlots]; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  /// Return true if a slot is used by a process whose end the manager can detect.
  [[nodiscard]] bool any_known() const;

  /// Return true if the manager cannot detect the end of the process in this slot: it is in another
  /// PID namespace, has no connection and no pidfd, and could not lock its slot. It keeps the slot,
  /// and its blocks, until it reconnects or the session ends.
  [[nodiscard]] bool is_unknown(SlotNumber slot) const;

  /// Return true if the process in this slot has ended, or does not map the session's memory any
  /// more, as after exec. Only evidence counts: a process that is not visible counts as present.
  [[nodiscard]] bool has_left(SlotNumber slot);

  /// Return true if the slot is reserved for a process that has not entered yet.
  [[nodiscard]] bool is_awaited(SlotNumber slot) const;

  /// Return true if no process may have an arena that is unknown to this manager.
  [[nodiscard]] bool all_registered() const noexcept;

  [[nodiscard]] SlotSet unused() const noexcept;

  template <typename Visit>
  void for_each_in_use(Visit&& visit) {
    for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
      if (occupants_[slot].taken) visit(slot);
    }
  }

  /// Return true if a process is alive that may still read messages of this session's processes.
  [[nodiscard]] bool has_living_parent();

 private:
  std::optional<SlotNumber> choose();
  [[nodiscard]] bool has_unread(SlotNumber slot) const;
  std::optional<SlotNumber> occupy(Occupant occupant, std::int32_t parent);
  void identify_by_table(SlotNumber slot);
  void remember_parent(std::int32_t pid);

  const SessionMemory& memory_;
  const std::uint64_t namespace_ = pid_namespace();
  std::array<Occupant, kMaxSlots> occupants_;
  std::vector<ProcessIdentity> parents_;
  std::size_t taken_ = 0;
};

}  // namespace shmtensor
