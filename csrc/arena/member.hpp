// This process as a member of a session.
#pragma once

#include <string>

#include "arena/session_memory.hpp"
#include "arena/transit.hpp"
#include "base/atomic.hpp"
#include "os/fork_mark.hpp"

namespace shmtensor {

/// Lets the manager cancel the tickets that a draining block contains.
class DrainRequests {
 public:
  virtual void drain(ArenaNumber arena, BlockNumber block) noexcept = 0;

 protected:
  ~DrainRequests() = default;
};

/// This process as a member of a session.
/// Threads: all members except `become` may be called simultaneously.
class Member {
 public:
  /// `drains` is null in a test that has no manager.
  Member(const SessionMemory& memory, SlotNumber slot, DrainRequests* drains = nullptr) noexcept
      : memory_(memory), slot_(slot), drains_(drains) {}
  ~Member() { delete writer_.load(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  [[nodiscard]] const SessionMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] SlotNumber slot() const noexcept { return slot_; }
  void request_drain(ArenaNumber arena, BlockNumber block) const noexcept {
    if (drains_ != nullptr) drains_->drain(arena, block);
  }
  /// Created at the first send. Throws OutOfMemory.
  [[nodiscard]] TransitWriter& writer() const;

  void lock_for_fork() noexcept;
  void unlock_after_fork() noexcept;
  /// Sets the slot of a forked child; kNoSlot if it has none, for the given reason. In that case
  /// inherited blocks are not protected, and the child must not release them: the bits belong to
  /// the parent.
  void become(SlotNumber slot, std::string why_none = {}) noexcept;
  /// Returns false if no holder bit protects the blocks of this process: it has no slot, or is a
  /// raw copy of the process that has the slot.
  [[nodiscard]] bool has_slot() const noexcept { return slot_ != kNoSlot && !is_raw_copy(); }
  /// Throws SessionError if this process has no slot, since it has no bits to set.
  void require_slot() const {
    if (!has_slot()) throw_no_slot();
  }

 private:
  [[noreturn]] void throw_no_slot() const;

  const SessionMemory& memory_;
  SlotNumber slot_;
  DrainRequests* drains_;
  std::string why_no_slot_;
  mutable Atomic<TransitWriter*> writer_{nullptr};
  TransitWriter* locked_for_fork_ = nullptr;
};

}  // namespace shmtensor
