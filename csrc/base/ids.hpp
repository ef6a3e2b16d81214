// The numbers that identify a session and its slots, arenas and blocks. docs/design/overview.md
// defines the terms.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace shmtensor {

/// The 128-bit identifier of a session: a group of processes that share memory.
struct SessionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const SessionId&) const = default;
  explicit operator bool() const noexcept { return (high | low) != 0; }

  /// Returns 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;

  /// Parses 32 hexadecimal digits. Any other text, such as a launcher's job id, is hashed to 128
  /// bits.
  static SessionId parse(std::string_view text);
};

using SlotNumber = std::uint16_t;   ///< the number of a process in its session
using ArenaNumber = std::uint32_t;  ///< unique in a session; 0 means none
using BlockNumber = std::uint32_t;  ///< index into an arena's block table
using Generation = std::uint32_t;   ///< how many times a block record has been allocated

inline constexpr std::uint32_t kMaxSlots = 1024;
inline constexpr SlotNumber kNoSlot = 0xffff;

/// One process's use of a slot. Other processes have the slot before and after it, also forked
/// children that inherited the memory of this one.
struct Incarnation {
  SlotNumber slot = kNoSlot;
  std::uint32_t number = 0;

  bool operator==(const Incarnation&) const = default;
};

}  // namespace shmtensor
