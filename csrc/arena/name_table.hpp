// The names under which processes of a session publish objects. The table is in the session's
// shared memory, so names outlive all processes, the manager included, until the session ends.
// docs/design/manager.md describes the protocol; the layer above defines the published data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "arena/transit.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "base/siphash.hpp"

namespace shmtensor {

enum class NameStage : std::uint8_t {
  free = 0,       ///< no object is published
  busy = 1,       ///< one process is building or removing the object; none is published
  published = 2,  ///< the handle at the state's place is valid
  replacing =
      3,  ///< the same, and one process is writing or removing the handle at the other place
};

/// The state of a name, one atomic word: life:32 | slot:16 | place:1 | stage:7 | turn:8. Slot and
/// life (the slot's incarnation) identify the process that changed the state last; the turn changes
/// with every change.
struct NameState {
  std::uint64_t bits = 0;

  [[nodiscard]] constexpr NameStage stage() const noexcept {
    return static_cast<NameStage>(bits >> 8 & 0x7f);
  }
  /// Returns the place of the published handle; the owner of the name writes only the other one.
  [[nodiscard]] constexpr std::uint32_t place() const noexcept { return bits >> 15 & 1; }
  [[nodiscard]] constexpr bool is_locked() const noexcept {
    return stage() == NameStage::busy || stage() == NameStage::replacing;
  }
  [[nodiscard]] constexpr bool is_published() const noexcept {
    return stage() == NameStage::published || stage() == NameStage::replacing;
  }
  [[nodiscard]] constexpr SlotNumber slot() const noexcept {
    return static_cast<SlotNumber>(bits >> 16);
  }
  [[nodiscard]] constexpr std::uint32_t incarnation() const noexcept {
    return static_cast<std::uint32_t>(bits >> 32);
  }
  [[nodiscard]] constexpr NameState next(NameStage stage, std::uint32_t place, SlotNumber slot,
                                         std::uint32_t incarnation) const noexcept {
    return {std::uint64_t{incarnation} << 32 | std::uint64_t{slot} << 16 |
            std::uint64_t{place & 1} << 15 | std::uint64_t{static_cast<std::uint8_t>(stage)} << 8 |
            ((bits + 1) & 0xff)};
  }
};

/// The bytes of a handle in a record; zeros: none.
using NameHandle = std::array<std::byte, 48>;

[[nodiscard]] inline bool is_handle(const NameHandle& handle) noexcept {
  return handle != NameHandle{};
}

/// All processes that find or create the record of a name write the same key and text. Only the
/// process that has locked the name (`busy`, `replacing`) writes what belongs to a place.
struct alignas(64) NameRecord {
  static constexpr std::size_t kMaxName = 167;
  static constexpr std::uint64_t kUntilDropped = ~std::uint64_t{0};
  /// Instead of a time: other libraries' GPU memory is part of the object, and ends with a process.
  static constexpr std::uint64_t kCannotBeKept = kUntilDropped - 1;
  using Handle = std::array<Atomic<std::uint64_t>, sizeof(NameHandle) / 8>;

  Atomic<std::uint64_t> key;      ///< hash of the name; 0: no record
  Atomic<std::uint64_t> state;    ///< NameState
  std::array<Handle, 2> handles;  ///< by place; zeros: none
  Atomic<std::uint64_t> since;    ///< second of the last publication
  Atomic<std::uint8_t> size;
  std::array<Atomic<char>, kMaxName> name;
  std::array<Atomic<std::uint64_t>, 2> bytes;  ///< by place: in the object's blocks
  std::array<Atomic<std::uint64_t>, 2> keep;   ///< by place: milliseconds for which the object
                                               ///< stays when the session has no process; 0: it
                                               ///< ends with the session

  /// Returns the milliseconds for which the object at a place is kept.
  [[nodiscard]] std::uint64_t kept_for(std::uint32_t place) const noexcept {
    const std::uint64_t time = keep[place % 2].load();
    return time == kCannotBeKept ? 0 : time;
  }
};
static_assert(sizeof(NameRecord) == 320);

/// Threads, processes: all members may be called simultaneously.
struct NameTable {
  static constexpr std::uint32_t kNames = 4096;

  std::array<NameRecord, kNames> records;

  /// The mark of the tickets of the object at a place; see TicketGroup.
  [[nodiscard]] static constexpr std::uint32_t mark_of(std::uint32_t number,
                                                       std::uint32_t place) noexcept {
    return TicketGroup::kFirstKept + number % kNames * 2 + place % 2;
  }

  /// Returns the record of a name, which is constant during the session. Nothing if there is none
  /// and `make` is false. Throws OutOfMemory if all records are in use.
  std::optional<std::uint32_t> find(std::string_view name, SipKey key, bool make);

  /// Replaces the state if it is `seen`. Returns the new state, or nothing.
  std::optional<NameState> change(std::uint32_t number, NameState seen, NameState next) noexcept;

  void write_handle(std::uint32_t number, std::uint32_t place, const NameHandle& handle) noexcept;
  [[nodiscard]] NameHandle read_handle(std::uint32_t number, std::uint32_t place) const noexcept;
  [[nodiscard]] std::string name(std::uint32_t number) const;
};

}  // namespace shmtensor
