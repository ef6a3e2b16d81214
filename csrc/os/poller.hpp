// Waits for several descriptors simultaneously.
#pragma once

#include <cstdint>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// An epoll instance, level-triggered, for reading.
/// Threads: one.
class Poller {
 public:
  Poller();

  /// `wait` returns `tag` when the descriptor is readable or the peer has closed its end.
  void add(const Fd& fd, std::uint64_t tag);
  void remove(const Fd& fd) noexcept;
  /// Does not close the instance: its number refers to another file, see Fd::still_is.
  void forget() noexcept { static_cast<void>(epoll_.release()); }
  /// Readable while `wait` would return a tag.
  [[nodiscard]] const Fd& descriptor() const noexcept { return epoll_; }

  /// Return true if `wait` would return a tag now. Threads: any, beside one that waits.
  [[nodiscard]] bool is_ready() const noexcept { return is_readable(epoll_); }

  /// Returns the tags of ready descriptors; none if `milliseconds` passed first (-1 waits
  /// indefinitely).
  [[nodiscard]] const std::vector<std::uint64_t>& wait(int milliseconds);

 private:
  Fd epoll_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace shmtensor
