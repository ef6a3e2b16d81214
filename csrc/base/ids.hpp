// The numbers that name things in a session. They are distinct words for distinct things: see
// docs/design/overview.md.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace shmtensor {

/// A random 128-bit name for the processes that share with one another.
struct SessionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const SessionId&) const = default;
  explicit operator bool() const noexcept { return (high | low) != 0; }

  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;

  /// Reads 32 hexadecimal digits; any other text (a launcher's job id, say) is hashed to 128 bits.
  static SessionId parse(std::string_view text);
};

using SlotNumber = std::uint16_t;   ///< a process's number in its session
using ArenaNumber = std::uint32_t;  ///< never used twice in a session; 0 is none
using BlockNumber = std::uint32_t;  ///< index into an arena's block table
using Generation = std::uint32_t;   ///< how often a block record has been handed out

inline constexpr std::uint32_t kMaxSlots = 1024;
inline constexpr SlotNumber kNoSlot = 0xffff;

}  // namespace shmtensor
