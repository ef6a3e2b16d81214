// The memory that all processes of a session map: the slots, the names and the unread messages.
#pragma once

#include <array>
#include <memory>

#include "arena/name_table.hpp"
#include "arena/transit.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "base/siphash.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"
#include "os/process_lock.hpp"
#include "os/robust_word.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kSessionMagic = 0x3161'7373'6573'7473;  // "stsessa1"
inline constexpr std::uint32_t kSessionVersion = 7;

enum class SlotStatus : std::uint32_t {
  unused = 0,
  active = 1,    ///< in use; the process holds the lock on the slot's byte of this file while it
                 ///< maps it
  forking = 2,   ///< reserved for the child of a fork in progress; the child stores its pid
  joining = 3,   ///< reserved for a process that has connected and may not map this memory yet
  unlocked = 4,  ///< in use by a process that could not lock the byte: only its pid shows whether
                 ///< it is alive
};

/// Return true if a process uses the slot. False if the slot is only reserved.
constexpr bool is_in(SlotStatus status) noexcept {
  return status == SlotStatus::active || status == SlotStatus::unlocked;
}

/// Written by the manager; `pid` and `start_time` of a forked child by the child. A process that
/// enters its reserved slot writes `status` itself, and `busy_since` of its tasks.
struct alignas(64) SlotRecord {
  Atomic<SlotStatus> status;
  Atomic<std::uint32_t> incarnation;  ///< incarnation: how many processes have had this slot
  Atomic<std::int32_t> pid;
  Atomic<std::int32_t> parent;  ///< pid of a process that may still read this one's messages;
                                ///< or 0
  Atomic<std::uint64_t> start_time;
  Atomic<std::uint64_t> pid_namespace;
  Atomic<std::uint32_t> frees_postponed;  ///< 1: the process could not check whether a block is
                                          ///< free, or notify the manager; that stores 0, checks
                                          ///< all blocks, and wakes all that watch queues
  Atomic<std::uint64_t> busy_since;       ///< `monotonic_nanoseconds` when the process, a worker
                                          ///< of a pool, began its task; 0: it runs none
};

/// In the word of the manager: the kernel does not change the word when the thread ends, which
/// holds the lock on the byte `kManagerByte` of this file instead.
inline constexpr std::uint32_t kManagerLocks = 0x2000'0000;  // no thread has so high a number
inline constexpr std::uint64_t kManagerByte = kMaxSlots;

struct SessionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  Atomic<std::uint32_t> manager;  ///< id of its thread; the kernel changes the word when the
                                  ///< thread ends
  SessionId id;
  SipKey key;                            ///< signs handles
  Atomic<std::uint32_t> last_arena;      ///< the last assigned arena number
  Atomic<std::uint32_t> manager_starts;  ///< number of managers that the session has had
  Atomic<std::uint64_t> deaths;          ///< number of reclaimed slots; a change makes owners
                                         ///< check their bookkeeping
  Atomic<std::uint32_t> small_tables;    ///< 1: the manager, which maps the tables of all
                                         ///< arenas, has a limit on address space
  Atomic<std::uint32_t> keeps_names;     ///< 1: an object has been kept under a name
  Atomic<std::uint64_t> empty_since;     ///< `coarse_milliseconds` when the manager found no
                                         ///< process in the session; 0: there is one
  alignas(64) std::array<SlotRecord, kMaxSlots> slots;
};

/// Threads: all members may be called simultaneously.
class SessionMemory {
 public:
  /// Creates the memory of a new session. Throws OsError, OutOfMemory.
  static std::unique_ptr<SessionMemory> create(const SessionId& id);

  /// Checks the memory of an existing session, then maps it. Throws SessionError.
  static std::unique_ptr<SessionMemory> open(const SessionId& id, Fd file);

  ~SessionMemory();
  SessionMemory(const SessionMemory&) = delete;
  SessionMemory& operator=(const SessionMemory&) = delete;

  [[nodiscard]] SessionHeader& header() const noexcept {
    return *reinterpret_cast<SessionHeader*>(head_.data());
  }
  [[nodiscard]] const SessionId& id() const noexcept { return id_; }
  [[nodiscard]] SlotRecord& slot(SlotNumber number) const noexcept {
    return header().slots[number % kMaxSlots];
  }
  /// Enters the slot that is reserved for this process (`kept`: joining, or forking for the child
  /// of a fork). Returns false if the manager has cancelled the reservation.
  [[nodiscard]] bool enter(SlotNumber number, SlotStatus kept) noexcept;
  /// Leaves it to the manager to free a block that this process cannot check, and to act as after
  /// each notice. Returns false if this process has not entered a slot.
  [[nodiscard]] bool postpone_free() const noexcept;
  /// Return true if the slot's process is alive and maps this memory. Also true if that cannot be
  /// determined.
  [[nodiscard]] bool is_alive(SlotNumber number) const noexcept;
  /// Return true if the slot is still reserved for the child of a fork.
  [[nodiscard]] bool awaits_child(SlotNumber number, std::uint32_t incarnation) const noexcept {
    return slot(number).status.load() == SlotStatus::forking &&
           slot(number).incarnation.load() == incarnation;
  }
  /// Return true if the session has another manager than the one this process knows, or none. Two
  /// loads, so that every send can ask. A new manager may have the thread number of the one before
  /// it, as in another PID namespace; the count of managers moves with each.
  [[nodiscard]] bool manager_changed() const noexcept {
    const std::uint32_t word = header().manager.load(std::memory_order_relaxed);
    return word != known_manager_.load(std::memory_order_relaxed) ||
           header().manager_starts.load(std::memory_order_relaxed) !=
               known_starts_.load(std::memory_order_relaxed) ||
           ((word & kManagerLocks) != 0 && !names_manager(word));
  }
  /// Return true if there is a manager, as far as the kernel has reported.
  [[nodiscard]] bool has_manager() const noexcept { return names_manager(header().manager.load()); }
  /// Records the calling thread as the session's manager, so that its end is noticed. Throws
  /// SessionError if the system has no way to do so.
  void claim_manager();
  /// Records the present manager as known. If it has been killed already, it is not recorded.
  void record_manager() const noexcept {
    // A new manager counts itself before it writes its number: the count that is read first is
    // never a later one's.
    known_starts_.store(header().manager_starts.load());
    const std::uint32_t word = header().manager.load();
    known_manager_.store((word & kRobustThread) != 0 ? word : 0);
  }
  /// Whatever is there now is known: no attempt to do better succeeded.
  void accept_manager() const noexcept {
    known_starts_.store(header().manager_starts.load());
    known_manager_.store(header().manager.load());
  }

  [[nodiscard]] ArenaNumber new_arena_number() const noexcept {
    return header().last_arena.fetch_add(1) + 1;
  }

  /// Returns the transit table of a sender; mapped at the first call. Throws OsError if address
  /// space is short.
  TransitTable& transit(SlotNumber sender) const {
    TransitTable* const mapped = transit_if_mapped(sender);
    return mapped != nullptr ? *mapped : *reinterpret_cast<TransitTable*>(map_transit(sender));
  }
  /// The same; null before that call.
  [[nodiscard]] TransitTable* transit_if_mapped(SlotNumber sender) const noexcept {
    return reinterpret_cast<TransitTable*>(
        transit_[sender % kMaxSlots].load(std::memory_order_acquire));
  }
  /// Return true if the ticket is live; false also if no slot has its sender's number. Throws as
  /// `transit` does.
  [[nodiscard]] bool is_live(const NamedTicket& named) const {
    return named.ticket.sender < kMaxSlots && transit(named.ticket.sender).is_live(named);
  }
  /// Consumes the ticket if it is live. Throws as `transit` does.
  void claim(const NamedTicket& named) const {
    if (named.ticket.sender < kMaxSlots) transit(named.ticket.sender).claim(named);
  }
  /// Calls `visit` with the ticket table of each slot that a process has had.
  template <typename Visit>
  void for_each_table(Visit&& visit) const {
    for (SlotNumber sender = 0; sender < kMaxSlots; ++sender) {
      if (slot(sender).incarnation.load() != 0) visit(transit(sender));
    }
  }
  [[nodiscard]] static std::uint64_t transit_offset(SlotNumber sender) noexcept;

  /// Returns the table of names; mapped, with its pages reserved, at the first call. Throws
  /// OsError, OutOfMemory.
  NameTable& names() const;

  /// Throws SessionError if the program closed the descriptor.
  [[nodiscard]] const Fd& file() const;
  /// The same as a number; -1 if the program closed the descriptor.
  [[nodiscard]] int descriptor_or_none() const noexcept {
    return file_.still_is(identity_) ? file_.get() : -1;
  }

  [[nodiscard]] int mapping_count() const noexcept;

  /// Returns the name under which /proc shows the file.
  [[nodiscard]] static std::string file_name(const SessionId& id);

 private:
  SessionMemory(const SessionId& id, Fd file, Mapping head);
  std::byte* map_transit(SlotNumber sender) const;

  [[nodiscard]] bool names_manager(std::uint32_t word) const noexcept;

  SessionId id_;  // as checked
  Fd file_;
  FileIdentity identity_;
  Mapping head_;
  ProcessLock lock_;
  Atomic<SlotNumber> entered_{kNoSlot};
  mutable Atomic<std::uint32_t> known_manager_{0};
  mutable Atomic<std::uint32_t> known_starts_{0};
  mutable std::array<Atomic<std::byte*>, kMaxSlots> transit_{};  // as Segment::data_
  mutable Atomic<std::byte*> names_{nullptr};                    // likewise
};

}  // namespace shmtensor
