// Names that processes of a session publish objects under, in the session's shared memory, so that
// they outlive every process but the last, the manager included. docs/design/named-objects.md has
// the protocol; what is published is the business of the layer above.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.hpp"
#include "base/siphash.hpp"

namespace shmtensor {

enum class NameStage : std::uint8_t {
  free = 0,       ///< nothing under this name
  busy = 1,       ///< one process builds, or removes
  published = 2,  ///< the handles are good
};

/// The state of a name, one atomic word: life:32 | slot:16 | stage:8 | turn:8. Slot and life say
/// who changed it last; the turn moves with every change.
struct NameState {
  std::uint64_t bits = 0;

  [[nodiscard]] constexpr NameStage stage() const noexcept {
    return static_cast<NameStage>(bits >> 8 & 0xff);
  }
  [[nodiscard]] constexpr SlotNumber slot() const noexcept {
    return static_cast<SlotNumber>(bits >> 16);
  }
  [[nodiscard]] constexpr std::uint32_t life() const noexcept {
    return static_cast<std::uint32_t>(bits >> 32);
  }
  [[nodiscard]] constexpr NameState next(NameStage stage, SlotNumber slot,
                                         std::uint32_t life) const noexcept {
    return {std::uint64_t{life} << 32 | std::uint64_t{slot} << 16 |
            std::uint64_t{static_cast<std::uint8_t>(stage)} << 8 | ((bits + 1) & 0xff)};
  }
};

/// Whoever finds or makes the record of a name writes the same key and the same text; the handles
/// are written by the one process that is busy with the name.
struct alignas(64) NameRecord {
  static constexpr std::size_t kMaxName = 167;
  static constexpr std::size_t kHandles = 48;

  std::atomic<std::uint64_t> key;    ///< hash of the name; 0: no record
  std::atomic<std::uint64_t> state;  ///< NameState
  std::array<std::atomic<std::uint64_t>, kHandles / 8> handles;
  std::atomic<std::uint64_t> since;  ///< second of the last publishing
  std::atomic<std::uint8_t> size;
  std::array<std::atomic<char>, kMaxName> name;
};
static_assert(sizeof(NameRecord) == 256);

/// Threads, processes: all members may be called at the same time.
struct NameTable {
  static constexpr std::uint32_t kNames = 4096;

  std::array<NameRecord, kNames> records;

  /// The record of a name, which stays its own while the session lasts. Nothing when there is none
  /// and `make` is not set. Throws OutOfMemory when all are taken.
  std::optional<std::uint32_t> find(std::string_view name, SipKey key, bool make);

  /// Moves the state on if it is `seen`; the new one, or nothing.
  std::optional<NameState> change(std::uint32_t number, NameState seen, NameState next) noexcept;

  void write_handles(std::uint32_t number, std::span<const std::byte> handles) noexcept;
  [[nodiscard]] std::array<std::byte, NameRecord::kHandles> read_handles(
      std::uint32_t number) const noexcept;
  [[nodiscard]] std::string name(std::uint32_t number) const;
};

}  // namespace shmtensor
