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
    bool unknown = false;  ///< an earlier manager's, of a process that cannot be seen from here
    std::uint32_t life = 0;
    ProcessIdentity process;
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
  /// It is known now who sits there: a forked child has said it, or an unknown process came back.
  void settle(SlotNumber slot, ProcessIdentity process, Fd pidfd);
  void vacate(SlotNumber slot);

  [[nodiscard]] Seat& operator[](SlotNumber slot) { return seats_[slot % kMaxSlots]; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  /// Is one taken by a process of which can be told whether it lives?
  [[nodiscard]] bool any_known() const noexcept;

  /// Is the process in this seat dead? Of an unknown one that is never said: its seat, and what it
  /// holds, stay until it comes back or the session ends.
  [[nodiscard]] bool has_ended(SlotNumber slot);

  /// Did it not say yet that it maps the session's memory?
  [[nodiscard]] bool is_joining(SlotNumber slot) const;

  /// Its connection broke. Did it leave, or put another program in its place? Not so if it merely
  /// closed its descriptors: then it still maps the session's memory. That cannot be seen in
  /// another PID namespace, where a broken connection is the end.
  [[nodiscard]] bool has_forgotten(SlotNumber slot);

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
