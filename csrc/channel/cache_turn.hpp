// Whose turn it is to build an item that a cache lacks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "channel/cache.hpp"

namespace shmtensor {

/// One call that asks for the turn.
/// Threads: one.
class CacheTurn {
 public:
  CacheTurn(Cache& cache, const CacheKey& key) noexcept : cache_(cache), key_(key) {}

  /// `done`: the item is there, or this thread builds it. `empty`: another one builds it.
  [[nodiscard]] Attempt try_take(ChannelCall& call);
  /// As Queue::prepare; after `empty`, waits until the other one has ended.
  void prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time);
  void pass_wakeup_on() noexcept {}

  /// Return true if the item is there.
  [[nodiscard]] bool is_there() const noexcept { return is_there_; }
  /// Return true if this very thread builds the item already.
  [[nodiscard]] bool is_recursive() const noexcept;
  /// The number of the record of this thread's build, for `end`. None if too many are built at the
  /// same time: no other process knows of this one.
  [[nodiscard]] std::optional<std::uint32_t> record() const noexcept { return record_; }
  /// Ends a build; of no effect in a forked child, whose parent builds.
  static void end(Cache& cache, std::uint32_t record) noexcept;

 private:
  [[nodiscard]] Attempt take(ChannelCall& call);

  Cache& cache_;
  const CacheKey key_;
  bool is_there_ = false;
  std::optional<std::uint32_t> record_;
  const CacheBuild* other_ = nullptr;  ///< the build of another thread
  std::uint64_t serial_ = 0;           ///< of that
};

}  // namespace shmtensor
