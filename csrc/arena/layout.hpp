// The layout of an arena's shared file. docs/design/blocks.md draws it.
//
//   control segment   header | chunk records | block records | freed map |
//                     holder planes | sender planes
//   data segment      the blocks' bytes, from a multiple of 2 MiB to the end of the file;
//                     or chunks of device memory, each an object of its own
//
// Every field is written by processes that may be killed at any instruction. So a field is either
// constant after creation or one lock-free atomic. The file holds offsets and numbers, no pointers.
#pragma once

#include <array>
#include <cstdint>

#include "arena/block_word.hpp"
#include "base/align.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// How the memory of an arena is shared. Fixed at creation.
enum class Strategy : std::uint32_t {
  file_descriptor = 1,  ///< a memfd; the manager passes its descriptor on
  file_system = 2,      ///< a named object in /dev/shm; opened by name, no descriptor kept
  device = 3,           ///< a memfd for the tables; the bytes are device memory, in chunks
  external = 4,         ///< a memfd whose blocks describe device memory that a user owns
};

/// Return true if the tensors of the arena are in device memory.
constexpr bool is_on_device(Strategy strategy) noexcept {
  return strategy == Strategy::device || strategy == Strategy::external;
}

/// The name of the enumerator, for people.
constexpr const char* name_of(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::file_descriptor:
      return "file_descriptor";
    case Strategy::file_system:
      return "file_system";
    case Strategy::device:
      return "device";
    case Strategy::external:
      return "external";
  }
  return "unknown";  // another process wrote it
}

/// The UUID of a device, as its driver reports it in every process.
using DeviceId = std::array<std::uint8_t, 16>;

inline constexpr std::uint64_t kArenaMagic = 0x3161'6e65'7261'7473;  // "starena1"
inline constexpr std::uint32_t kArenaVersion = 4;

/// 1,024 slots are 16 planes of 64 bits. A plane has one word per block, so a session of up to 64
/// processes uses one plane only, and the bits of a dead slot are stored in one contiguous range.
inline constexpr std::uint32_t kPlanes = kMaxSlots / 64;

constexpr std::uint32_t plane_of(SlotNumber slot) noexcept { return slot / 64; }
constexpr std::uint64_t bit_of(SlotNumber slot) noexcept { return std::uint64_t{1} << slot % 64; }

struct alignas(32) BlockRecord {
  Atomic<std::uint64_t> word;      ///< BlockWord
  Atomic<std::uint64_t> offset;    ///< into the data segment; constant while live
  Atomic<std::uint64_t> size;      ///< as requested; constant while live
  Atomic<std::uint64_t> contents;  ///< TicketContents; 0: the block contains no tickets
};
static_assert(sizeof(BlockRecord) == 32);

/// A chunk of device memory. Strategy::device uses each number only once.
struct ChunkRecord {
  Atomic<std::uint64_t> size;       ///< 0 before the chunk exists and after it is freed
  Atomic<std::int32_t> descriptor;  ///< its number in the owner's process; -1: closed
  std::uint32_t reserved;
};
static_assert(sizeof(ChunkRecord) == 16);
inline constexpr std::uint32_t kMaxChunks = 3072;
/// An offset in device memory: chunk:24 | offset in the chunk:40.
inline constexpr unsigned kChunkShift = 40;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one cache line for each writer
struct ArenaHeader {
  std::uint64_t magic;
  std::uint32_t version;
  Strategy strategy;
  SessionId session;
  ArenaNumber number;
  std::uint32_t owner;              ///< slot of the process that allocates here
  std::uint32_t owner_incarnation;  ///< incarnation of that slot
  std::uint32_t max_blocks;
  std::uint64_t data_reserve;   ///< address space to map for the data segment
  std::uint64_t pid_namespace;  ///< the namespace whose /proc shows which processes map the file
  DeviceId device;              ///< for Strategy::device

  alignas(64) Atomic<std::uint32_t> capacity;  ///< block records whose pages exist
  Atomic<std::uint32_t> planes;                ///< bit p: every process reads plane p, whose
                                               ///< pages exist for all block records
  Atomic<std::uint32_t> capacity_wanted;       ///< the capacity that the owner is creating
  Atomic<std::uint32_t> planes_wanted;         ///< bit p: a process is creating plane p
  Atomic<std::uint64_t> committed;             ///< bytes of the data segment in the file
  Atomic<std::uint32_t> orphaned;              ///< the manager found the owner dead
  Atomic<std::uint64_t> discards;              ///< grows before pages of data are discarded; a
                                               ///< driver goes on using pinned ones

  alignas(64) Atomic<std::uint64_t> freed_top;  ///< see FreedMap

  /// Strategy::external: changes, with a wake-up, when a block may have been freed. The owner waits
  /// for it.
  alignas(64) Atomic<std::uint32_t> wake_sequence;
};
static_assert(sizeof(ArenaHeader) <= 4096);
static_assert(Atomic<std::uint64_t>::is_always_lock_free);

/// The offsets of the parts of a control segment. They follow from `max_blocks` alone, so a process
/// never relies on an offset that a peer wrote.
struct SegmentLayout {
  std::uint32_t max_blocks = std::uint32_t{1} << 20;
  std::uint64_t data_reserve = 0;

  static constexpr std::uint64_t kPart = 64 * kKiB;  ///< parts begin at multiples of any page size

  static constexpr std::uint64_t kChunks = 4 * kKiB;
  static_assert(kChunks + kMaxChunks * sizeof(ChunkRecord) <= kPart);

  [[nodiscard]] constexpr std::uint64_t records() const noexcept { return kPart; }
  [[nodiscard]] constexpr std::uint64_t freed() const noexcept {
    return records() + align_up(std::uint64_t{max_blocks} * sizeof(BlockRecord), kPart);
  }
  [[nodiscard]] constexpr std::uint64_t freed_size() const noexcept {
    return align_up(std::uint64_t{max_blocks} / 8 + std::uint64_t{max_blocks} / 512, kPart);
  }
  [[nodiscard]] constexpr std::uint64_t plane_size() const noexcept {
    return align_up(std::uint64_t{max_blocks} * 8, kPart);
  }
  [[nodiscard]] constexpr std::uint64_t holders(std::uint32_t plane) const noexcept {
    return freed() + freed_size() + plane * plane_size();
  }
  [[nodiscard]] constexpr std::uint64_t senders(std::uint32_t plane) const noexcept {
    return holders(kPlanes) + plane * plane_size();
  }
  /// Offset of the data segment; also the size of the control segment.
  [[nodiscard]] constexpr std::uint64_t data() const noexcept {
    return align_up(senders(kPlanes), 2 * kMiB);
  }

  /// Return true if the number of blocks is a power of two that the freed map can index, and the
  /// address range can be mapped.
  [[nodiscard]] constexpr bool valid() const noexcept {
    return std::has_single_bit(max_blocks) && max_blocks >= 4096 &&
           max_blocks <= (std::uint32_t{1} << 24) && data_reserve > 0 &&
           data_reserve <= (std::uint64_t{1} << 46) && data_reserve % (2 * kMiB) == 0;
  }
};

}  // namespace shmtensor
