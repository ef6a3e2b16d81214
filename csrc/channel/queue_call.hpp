// What a process needs for one message, over several attempts to put or take it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "queue/layout.hpp"
#include "queue/rings.hpp"
#include "session/held_block.hpp"

namespace shmtensor {

/// Threads: one.
class QueueCall final : private RingMapper {
 public:
  explicit QueueCall(Session& session) noexcept : session_(session) {}
  ~QueueCall() override;
  QueueCall(const QueueCall&) = delete;
  QueueCall& operator=(const QueueCall&) = delete;

 private:
  friend class Queue;

  static constexpr BlockNumber kNoBlock = ~BlockNumber{0};

  [[nodiscard]] std::span<std::byte> map_ring(const NamedTicket& named, Strategy strategy) override;
  /// What an arena is needed for. A call keeps one mapped for each: to map one may unmap others.
  enum Purpose : std::uint8_t { kRing, kMessage };

  /// The arena, which stays mapped until the next call for the same purpose; null if it must be
  /// mapped first.
  [[nodiscard]] Arena* arena(Purpose purpose, ArenaNumber number, Strategy strategy) noexcept;
  [[nodiscard]] bool arena_is_gone(ArenaNumber number) const noexcept { return gone_ == number; }
  /// Return true if the bytes of a block on the host are mapped, so that nothing can fail after its
  /// ticket is claimed; also true if they, or the arena, cannot be mapped at all.
  [[nodiscard]] bool can_use(Arena* arena, const NamedTicket& named, Access access) noexcept;
  /// Maps what was missing, or notes that it is gone. Throws OsError, SessionError.
  void map_missing();
  /// Makes the ring that was missing. Throws OutOfMemory.
  void make_ring();

  Session& session_;
  QueueEnd* end_ = nullptr;            ///< of the attempt
  QueueEnd* locked_ = nullptr;         ///< the end that was locked between two attempts
  std::array<PinnedArena, 2> pinned_;  ///< by purpose
  Purpose purpose_ = kRing;            ///< of the missing arena
  ArenaNumber missing_ = 0;
  Strategy strategy_ = Strategy::file_descriptor;  ///< of the missing arena
  ArenaNumber gone_ = 0;                           ///< an arena that no process has open
  BlockNumber block_ = kNoBlock;                   ///< of which the bytes were mapped
  Access access_ = Access::read_write;
  std::uint32_t entries_ = 0;  ///< of the missing ring
  HeldBlock ring_;             ///< a new ring
  bool ring_is_used_ = false;  ///< it belongs to the queue
};

}  // namespace shmtensor
