// The memory that all processes of a session map: who is in it, and what is in flight.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "arena/name_table.hpp"
#include "arena/transit.hpp"
#include "base/ids.hpp"
#include "base/siphash.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"
#include "os/process_lock.hpp"
#include "os/robust_word.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kSessionMagic = 0x3161'7373'6573'7473;  // "stsessa1"
inline constexpr std::uint32_t kSessionVersion = 1;

enum class SlotStatus : std::uint32_t {
  unused = 0,
  active = 1,    ///< a process that has locked the slot's byte of this file as long as it maps it
  forking = 2,   ///< kept for the child of a fork that is under way; the child fills in its pid
  joining = 3,   ///< kept for a process that has connected and may not map this memory yet
  unlocked = 4,  ///< a process that could not lock the byte: only its pid tells whether it lives
};

/// Return true if a process is in the slot, rather than expected.
constexpr bool is_in(SlotStatus status) noexcept {
  return status == SlotStatus::active || status == SlotStatus::unlocked;
}

/// Written by the manager; `pid` and `start_time` of a forked child by the child. A process that
/// takes the slot kept for it writes so into `status` itself.
struct alignas(64) SlotRecord {
  std::atomic<SlotStatus> status;
  std::atomic<std::uint32_t> life;  ///< how many processes have had this slot
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> parent;  ///< a process that may still read what this one sent; or 0
  std::atomic<std::uint64_t> start_time;
  std::atomic<std::uint64_t> pid_namespace;
};

struct SessionHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::atomic<std::uint32_t> manager;  ///< its thread; the kernel changes it when that ends
  SessionId id;
  SipKey key;                                 ///< signs handles
  std::atomic<std::uint32_t> last_arena;      ///< arena numbers given out
  std::atomic<std::uint32_t> manager_starts;  ///< how many managers the session has had
  std::atomic<std::uint64_t> deaths;          ///< slots swept; tells owners to look at their books
  alignas(64) std::array<SlotRecord, kMaxSlots> slots;
};

/// Threads: all members may be called at the same time.
class SessionMemory {
 public:
  /// A new session's memory. Throws OsError, OutOfMemory.
  static std::unique_ptr<SessionMemory> create(const SessionId& id);

  /// Maps an existing one after checking it. Throws SessionError.
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
  /// Takes the slot that is kept for this process (`kept`: joining, or forking for the child of a
  /// fork). False when the manager does not keep it any more.
  [[nodiscard]] bool enter(SlotNumber number, SlotStatus kept) noexcept;
  /// Return true if the slot's process lives and maps this memory. Also true if that cannot be
  /// told.
  [[nodiscard]] bool is_alive(SlotNumber number) const noexcept;
  /// Is the slot still kept for the child of a fork?
  [[nodiscard]] bool awaits_child(SlotNumber number, std::uint32_t life) const noexcept {
    return slot(number).status.load() == SlotStatus::forking && slot(number).life.load() == life;
  }
  /// Return true if the session has another manager than the one this process knows, or none. Two
  /// loads, so that every send can ask. A new manager may have the thread number of the one before
  /// it, as in another PID namespace; the count of managers moves with each.
  [[nodiscard]] bool manager_changed() const noexcept {
    return header().manager.load(std::memory_order_relaxed) !=
               known_manager_.load(std::memory_order_relaxed) ||
           header().manager_starts.load(std::memory_order_relaxed) !=
               known_starts_.load(std::memory_order_relaxed);
  }
  /// Is there one, as far as the kernel has told?
  [[nodiscard]] bool has_manager() const noexcept {
    return (header().manager.load() & kRobustThread) != 0;
  }
  /// The manager that is there now is known; should it have been killed already, that is not.
  void know_manager() const noexcept {
    // A new manager counts itself before it writes its number: the count that is read first is
    // never a later one's.
    known_starts_.store(header().manager_starts.load());
    known_manager_.store(header().manager.load() & kRobustThread);
  }
  /// Whatever is there now is known: no attempt to do better succeeded.
  void accept_manager() const noexcept {
    known_starts_.store(header().manager_starts.load());
    known_manager_.store(header().manager.load());
  }

  [[nodiscard]] ArenaNumber new_arena_number() const noexcept {
    return header().last_arena.fetch_add(1) + 1;
  }

  /// A sender's transit table; mapped at the first call. Throws OsError when address space is
  /// short.
  TransitTable& transit(SlotNumber sender) const {
    std::byte* start = transit_[sender % kMaxSlots].load(std::memory_order_acquire);
    return *reinterpret_cast<TransitTable*>(start != nullptr ? start : map_transit(sender));
  }
  [[nodiscard]] static std::uint64_t transit_offset(SlotNumber sender) noexcept;

  /// The session's names; mapped, with its pages reserved, at the first call. Throws OsError,
  /// OutOfMemory.
  NameTable& names() const;

  /// Throws SessionError when somebody closed the descriptor behind our back.
  [[nodiscard]] const Fd& file() const;
  /// The same as a number; -1 then.
  [[nodiscard]] int descriptor_or_none() const noexcept {
    return file_.still_is(identity_) ? file_.get() : -1;
  }

  [[nodiscard]] int mapping_count() const noexcept;

  /// The name under which /proc shows the file.
  [[nodiscard]] static std::string file_name(const SessionId& id);

 private:
  SessionMemory(const SessionId& id, Fd file, Mapping head);
  std::byte* map_transit(SlotNumber sender) const;

  SessionId id_;  // as it was checked
  Fd file_;
  FileIdentity identity_;
  Mapping head_;
  ProcessLock lock_;
  mutable std::atomic<std::uint32_t> known_manager_{0};
  mutable std::atomic<std::uint32_t> known_starts_{0};
  mutable std::array<std::atomic<std::byte*>, kMaxSlots> transit_{};  // as Segment::data_
  mutable std::atomic<std::byte*> names_{nullptr};                    // likewise
};

}  // namespace shmtensor
