// What an arena's shared file looks like. docs/design/segment-format.md draws it.
//
//   control segment   header | chunk records | block records | freed map |
//                     holder planes | sender planes
//   data segment      the blocks' bytes, from a multiple of 2 MiB to the end of the file;
//                     or chunks of device memory, each an object of its own
//
// Everything is written by processes that may be killed at any instruction, so each field is either
// constant after creation or one lock-free atomic. Offsets and numbers only, never pointers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "arena/block_word.hpp"
#include "base/align.hpp"
#include "base/ids.hpp"

namespace shmtensor {

/// How the memory of an arena is shared. Fixed when the arena is made.
enum class Strategy : std::uint32_t {
  file_descriptor = 1,  ///< a memfd; its descriptor travels through the manager
  file_system = 2,      ///< a named object in /dev/shm; opened by name, no descriptor kept
  device = 3,           ///< a memfd for the tables; the bytes are device memory, in chunks
  in_place = 4,         ///< a memfd whose blocks describe device memory that a user owns
};

/// Are the bytes of its tensors device memory?
constexpr bool is_on_device(Strategy strategy) noexcept {
  return strategy == Strategy::device || strategy == Strategy::in_place;
}

/// Which device, as its driver names it everywhere.
using DeviceId = std::array<std::uint8_t, 16>;

inline constexpr std::uint64_t kArenaMagic = 0x3161'6e65'7261'7473;  // "starena1"
inline constexpr std::uint32_t kArenaVersion = 2;

/// 1,024 slots are 16 planes of 64 bits. A plane is one word for each block, so a session of up to
/// 64 processes touches one plane only, and a dead slot's bits lie in one contiguous range.
inline constexpr std::uint32_t kPlanes = kMaxSlots / 64;

constexpr std::uint32_t plane_of(SlotNumber slot) noexcept { return slot / 64; }
constexpr std::uint64_t bit_of(SlotNumber slot) noexcept { return std::uint64_t{1} << slot % 64; }

struct alignas(32) BlockRecord {
  std::atomic<std::uint64_t> word;    ///< BlockWord
  std::atomic<std::uint64_t> offset;  ///< into the data segment; constant while live
  std::atomic<std::uint64_t> size;    ///< as asked for; constant while live
  std::uint64_t reserved;
};
static_assert(sizeof(BlockRecord) == 32);

/// A chunk of device memory. Strategy::device uses a number once only.
struct ChunkRecord {
  std::atomic<std::uint64_t> size;       ///< 0 before it is there and after it is gone
  std::atomic<std::int32_t> descriptor;  ///< its number in the owner's process; -1: closed
  std::uint32_t reserved;
};
static_assert(sizeof(ChunkRecord) == 16);
inline constexpr std::uint32_t kMaxChunks = 3072;
/// An offset in device memory: chunk:24 | place in it:40.
inline constexpr unsigned kChunkShift = 40;

struct ArenaHeader {
  std::uint64_t magic;
  std::uint32_t version;
  Strategy strategy;
  SessionId session;
  ArenaNumber number;
  std::uint32_t owner;       ///< slot of the process that allocates here
  std::uint32_t owner_life;  ///< which of the slot's processes it is
  std::uint32_t max_blocks;
  std::uint64_t data_reserve;   ///< address space to map for the data segment
  std::uint64_t pid_namespace;  ///< whose /proc can tell whether somebody still maps the file
  DeviceId device;              ///< of Strategy::device

  alignas(64) std::atomic<std::uint32_t> capacity;  ///< block records whose pages exist
  std::atomic<std::uint32_t> planes;                ///< bit p: so do plane p's, for all of them
  std::atomic<std::uint32_t> capacity_wanted;       ///< what the owner is making
  std::atomic<std::uint32_t> planes_wanted;         ///< bit p: somebody is making plane p
  std::atomic<std::uint64_t> committed;             ///< bytes of the data segment in the file
  std::atomic<std::uint32_t> orphaned;              ///< the manager found the owner dead

  alignas(64) std::atomic<std::uint64_t> freed_top;  ///< see FreedMap

  /// Strategy::in_place: moves, and is woken, when a block may have been freed. The owner waits.
  alignas(64) std::atomic<std::uint32_t> news;
};
static_assert(sizeof(ArenaHeader) <= 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Where the parts of a control segment lie; follows from `max_blocks` alone, so that a peer's word
/// for an offset is never needed.
struct Geometry {
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
  /// Also the size of the control segment.
  [[nodiscard]] constexpr std::uint64_t data() const noexcept {
    return align_up(senders(kPlanes), 2 * kMiB);
  }

  /// A power of two that the freed map can index, and an address range that can be mapped.
  [[nodiscard]] constexpr bool valid() const noexcept {
    return std::has_single_bit(max_blocks) && max_blocks >= 4096 &&
           max_blocks <= (std::uint32_t{1} << 24) && data_reserve > 0 &&
           data_reserve <= (std::uint64_t{1} << 46) && data_reserve % (2 * kMiB) == 0;
  }
};

}  // namespace shmtensor
