// Waiting for several descriptors at once.
#pragma once

#include <cstdint>
#include <vector>

#include "os/fd.hpp"

namespace shmtensor {

/// epoll, level-triggered, for reading.
/// Threads: one.
class Poller {
 public:
  Poller();

  /// `tag` comes back from `wait` when the descriptor is readable or its other side has closed.
  void add(const Fd& fd, std::uint64_t tag);
  void remove(const Fd& fd) noexcept;

  /// Tags of what is ready; empty when `milliseconds` passed first (-1: for ever).
  [[nodiscard]] const std::vector<std::uint64_t>& wait(int milliseconds);

 private:
  Fd epoll_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace shmtensor
