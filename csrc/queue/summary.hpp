// A queue, a broadcast or a cache, seen from outside: by a process that neither holds it nor takes
// its locks.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

class Segment;
class SessionMemory;

struct QueueSummary {
  QueueLabel label{};
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  std::uint64_t limit = 0;      ///< messages that fit; 0: as many as memory permits
  std::uint64_t messages = 0;   ///< unread; the items of a cache
  std::uint64_t bytes = 0;      ///< of those, with the blocks to which they refer
  std::uint64_t max_bytes = 0;  ///< with so many it is full; 0: never
  std::uint64_t put = 0;        ///< since the queue was made; items that were added
  std::uint32_t rings = 0;      ///< that have unread messages, or the next message
  std::uint32_t processes = 0;
  std::uint32_t readers = 0;  ///< of a broadcast, whose messages are those of the slowest one
  bool getters = false;  ///< a process has announced that it waits, and no message was put since
  bool putters = false;  ///< likewise; no message was taken since
  bool shut_down = false;
  bool is_cache = false;
  bool damaged = false;  ///< a process wrote impossible numbers; the others are 0 then

  /// A queue has a ring.
  [[nodiscard]] bool is_broadcast() const noexcept { return rings == 0 && !is_cache && !damaged; }
};

/// The number of processes that hold the block.
[[nodiscard]] std::uint32_t count_processes(const Segment& segment, BlockNumber block,
                                            const SessionMemory& memory) noexcept;

/// Returns the queue, broadcast or cache in the block. Nothing if there is none, if it was freed in
/// the meantime, or if the arena's file cannot be read. While processes put and take messages, the
/// numbers are of different instants.
///
/// Reads the file instead of a mapping: the block may be freed, and its pages released, at any
/// instant, and to touch such a page would allocate it, or be fatal where memory is exhausted.
[[nodiscard]] std::optional<QueueSummary> summarize_queue(const Segment& segment, BlockNumber block,
                                                          const SessionMemory& memory);

}  // namespace shmtensor
