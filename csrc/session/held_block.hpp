// A block that this process holds.
#pragma once

#include <utility>

#include "session/session.hpp"

namespace shmtensor {

/// Has one reference to a block, or is empty.
/// Threads: one.
class HeldBlock {
 public:
  HeldBlock() noexcept = default;
  /// Takes over a reference.
  explicit HeldBlock(const Block& block) noexcept : block_(block) {}
  HeldBlock(HeldBlock&& other) noexcept : block_(std::exchange(other.block_, {})) {}
  HeldBlock& operator=(HeldBlock other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~HeldBlock() { reset(); }

  void reset() noexcept {
    // Without its last block, the arena may be unmapped by another thread.
    if (block_.arena == nullptr) return;
    const PinnedArena arena(*block_.arena);
    arena->release(std::exchange(block_, {}).number);
  }
  /// The caller takes over the reference.
  [[nodiscard]] Block release() noexcept { return std::exchange(block_, {}); }

  explicit operator bool() const noexcept { return block_.arena != nullptr; }
  [[nodiscard]] const Block& operator*() const noexcept { return block_; }
  [[nodiscard]] const Block* operator->() const noexcept { return &block_; }

  void set_contents(const TicketContents& contents) const noexcept {
    block_.arena->set_contents(block_.number, contents);
  }

 private:
  Block block_;
};

}  // namespace shmtensor
