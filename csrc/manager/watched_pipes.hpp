// The pipes that carry messages of a session, watched for readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// A pipe without a reader never gets one again, so its messages will not be read; only a process
/// that has read some of them already may still load those. It has the grace period for that.
/// One compare-and-swap claims or cancels a ticket, so it never gets other bytes.
///
/// A sender sends `watch_pipe` before the first ticket for a pipe. Killed before that, it leaves no
/// ticket; killed afterwards, a ticket that is cancelled with the pipe, because the manager reads
/// what a dead process has sent before it releases the slot. A new manager is notified by each
/// sender's next ticket; it does not know a pipe into which nothing more is sent.
/// Threads: one.
class WatchedPipes {
 public:
  static constexpr std::uint64_t kGraceMilliseconds = 10'000;
  static constexpr std::uint64_t kIntervalMilliseconds = 5'000;
  static constexpr std::size_t kMost = 4096;

  /// At most `most` pipes are watched.
  explicit WatchedPipes(std::size_t most = limit()) : most_(most) {}

  /// Watches a pipe, unless it is watched already or too many are. `location` is from
  /// `open_pipe_location`.
  void add(std::uint32_t number, Fd location, std::uint64_t now);

  /// Checks every pipe, and returns the numbers of those that have had no reader for the grace
  /// period, which are not watched any more.
  [[nodiscard]] std::vector<std::uint32_t> check(std::uint64_t now);

  /// Returns when to check next; nothing while no pipe is watched.
  [[nodiscard]] std::optional<std::uint64_t> next_check() const noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return pipes_.size(); }

 private:
  struct Pipe {
    Fd location;
    std::optional<std::uint64_t> unreadable_since;
  };
  [[nodiscard]] static std::size_t limit();

  std::size_t most_;
  std::unordered_map<std::uint32_t, Pipe> pipes_;
  std::uint64_t next_check_ = 0;
};

}  // namespace shmtensor
