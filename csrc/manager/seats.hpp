// Who sits in which slot of a session, and who has left.
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
class Seats {
 public:
  struct Seat {
    bool taken = false;
    bool forking = false;  ///< the child has not said who it is
    std::uint32_t life = 0;
    ProcessIdentity process;  ///< pid 0: it cannot be seen from this manager's PID namespace
    Fd pidfd;                 ///< empty on kernels before 5.3
    int line = -1;            ///< descriptor of the connection; -1 when there is none
    std::uint64_t since = 0;  ///< milliseconds; when it was taken
  };

  explicit Seats(const SessionMemory& memory) : memory_(memory) {}

  /// Reads the slot table that an earlier manager left; the seats' processes may be dead by now.
  void take_over();

  /// A free seat with a new life. Nothing when the session is full. Throws OutOfMemory.
  std::optional<SlotNumber> take(ProcessIdentity process, std::int32_t parent, Fd pidfd, int line);
  /// The same for a child that is about to be forked.
  std::optional<SlotNumber> take_for_child(std::int32_t parent, int line);
  /// It is known now who sits there: a forked child has said it, or a member came back.
  void settle(SlotNumber slot, ProcessIdentity process, Fd pidfd);
  /// Lets nobody enter any more. False when the process for which the seat is kept has entered.
  [[nodiscard]] bool shut(SlotNumber slot);
  void vacate(SlotNumber slot);

  [[nodiscard]] Seat& operator[](SlotNumber slot) { return seats_[slot % kMaxSlots]; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  /// Return true if a seat is taken by a process whose end will be noticed.
  [[nodiscard]] bool any_known() const;

  /// Return true if nothing will tell when the process in this seat ends: it is in another PID
  /// namespace, has no line and no pidfd, and could not lock its slot. It keeps its seat, and what
  /// it holds, until it comes back or the session ends.
  [[nodiscard]] bool is_unknown(SlotNumber slot) const;

  /// Return true if the process in this seat has ended, or does not map the session's memory any
  /// more, as when it executes another program. Only evidence counts: a process that cannot be seen
  /// has not left.
  [[nodiscard]] bool has_left(SlotNumber slot);

  /// Return true if the process for which the seat is kept has not entered yet.
  [[nodiscard]] bool is_awaited(SlotNumber slot) const;

  [[nodiscard]] SlotSet unused() const noexcept;

  template <typename Visit>
  void for_each_taken(Visit&& visit) {
    for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
      if (seats_[slot].taken) visit(slot);
    }
  }

  /// Does a process live that may still read what the processes of this session sent?
  [[nodiscard]] bool has_living_parent();

 private:
  std::optional<SlotNumber> choose();
  std::optional<SlotNumber> sit(Seat seat, std::int32_t parent);
  void settle_by_table(SlotNumber slot);
  void remember_parent(std::int32_t pid);

  const SessionMemory& memory_;
  const std::uint64_t namespace_ = pid_namespace();
  std::array<Seat, kMaxSlots> seats_;
  std::vector<ProcessIdentity> parents_;
  std::size_t taken_ = 0;
};

}  // namespace shmtensor
