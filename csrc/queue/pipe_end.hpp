// An end of a pipe: two queues whose messages end with the processes that have their other end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "base/ids.hpp"
#include "queue/repair.hpp"

namespace shmtensor {

inline constexpr std::uint64_t kPipeEndMagic = 0x3164'6e65'7069'7073;  // "spipend1"

/// A queue, by its block.
struct QueueName {
  ArenaNumber arena = 0;
  BlockNumber block = 0;
  Generation generation = 0;
};

/// The block of an end, which each process holds that has the end. When none has it any more, and
/// it is in no message, the block is drained, and the manager hangs up. Constant.
struct PipeEnd {
  struct Record {
    Atomic<std::uint64_t> block;  ///< arena:32 | block:32
    Atomic<std::uint64_t> mark;   ///< generation:32 | 1; 0: no queue

    void write(const QueueName& queue) noexcept {
      block.store(std::uint64_t{queue.arena} << 32 | queue.block);
      mark.store(std::uint64_t{queue.generation} << 32 | 1);
    }
    [[nodiscard]] std::optional<QueueName> read() const noexcept {
      const std::uint64_t where = block.load();
      const std::uint64_t when = mark.load();
      if ((when & 1) == 0) return std::nullopt;
      return QueueName{.arena = static_cast<ArenaNumber>(where >> 32),
                       .block = static_cast<BlockNumber>(where),
                       .generation = static_cast<Generation>(when >> 32)};
    }
  };

  Atomic<std::uint64_t> magic;
  Record written;  ///< the queue into which this end puts messages
  Record read;     ///< the one from which it takes them

  /// It has no tickets, but must be drained.
  [[nodiscard]] static constexpr TicketContents contents() noexcept {
    return {.kind = TicketContents::Kind::pipe_end};
  }
};

/// Lets the other end read what was written, then end, and write nothing. What it has written is
/// freed. `find` provides the header of a queue, or null. May be repeated.
void hang_up(std::span<std::byte> end, const std::function<QueueHeader*(const QueueName&)>& find,
             TicketCanceller& tickets);

}  // namespace shmtensor
