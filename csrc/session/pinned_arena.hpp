// An arena that stays mapped.
#pragma once

#include <utility>

#include "arena/arena.hpp"

namespace shmtensor {

/// Keeps an arena mapped while it exists; empty, or moved from, it keeps nothing.
/// Threads: one.
class PinnedArena {
 public:
  PinnedArena() noexcept = default;
  /// Of an arena that cannot be unmapped during the call: the caller holds a block of it, a pin, or
  /// the lock of the session's arenas.
  explicit PinnedArena(Arena& arena) noexcept : arena_(&arena) { arena.pin(); }
  PinnedArena(PinnedArena&& other) noexcept : arena_(std::exchange(other.arena_, nullptr)) {}
  PinnedArena& operator=(PinnedArena other) noexcept {
    std::swap(arena_, other.arena_);
    return *this;
  }
  ~PinnedArena() { reset(); }

  void reset() noexcept {
    if (arena_ != nullptr) std::exchange(arena_, nullptr)->unpin();
  }
  /// Forgets the arena without a change of its count: for a forked child, where the session may
  /// have unmapped the arena.
  void forget() noexcept { arena_ = nullptr; }

  [[nodiscard]] Arena* get() const noexcept { return arena_; }
  [[nodiscard]] Arena& operator*() const noexcept { return *arena_; }
  [[nodiscard]] Arena* operator->() const noexcept { return arena_; }
  explicit operator bool() const noexcept { return arena_ != nullptr; }

 private:
  Arena* arena_ = nullptr;
};

}  // namespace shmtensor
