// A process of a session that uses a cache.
#pragma once

#include <memory>
#include <optional>

#include "channel/cache_turn.hpp"
#include "support/channel_user.hpp"

namespace shmtensor::testing {

/// A member of the session with one cache. Its items are numbers, in the entry or in a block.
class CacheUser : public ChannelUser<Cache, CacheHeader> {
 public:
  using ChannelUser::ChannelUser;

  static CacheKey key_of(std::uint64_t key) { return {.first = key + 1, .second = key}; }

  void make(std::uint64_t max_bytes = 0) {
    const Block block = session_->allocate(Cache::kBytes, Strategy::file_descriptor);
    Cache::create(block, {.max_bytes = max_bytes});
    open(block);
  }

  Attempt add(std::uint64_t key, bool with_block) {
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session_->allocate(kBlock, Strategy::file_descriptor));
      std::memcpy(block->arena->bytes(block->number, Access::read_write).data(), &key, sizeof key);
    }
    const Outgoing item{.kind = with_block ? 1u : 0u,
                        .content = std::as_bytes(std::span(&key, 1)),
                        .block = with_block ? *block : Block{},
                        .block_bytes = with_block ? kBlock : 0};
    return make_attempts(
        *channel_, [&](ChannelCall& call) { return channel_->try_add(key_of(key), item, call); });
  }
  Attempt find(std::uint64_t key, Incoming& item) {
    return make_attempts(
        *channel_, [&](ChannelCall& call) { return channel_->try_find(key_of(key), item, call); });
  }
  [[nodiscard]] bool has(std::uint64_t key) {
    Incoming item;
    return find(key, item) == Attempt::done;
  }
  Attempt remove(std::uint64_t key) {
    return make_attempts(
        *channel_, [&](ChannelCall& call) { return channel_->try_remove(key_of(key), call); });
  }
  Attempt evict(Evict which) {
    return make_attempts(*channel_,
                         [&](ChannelCall& call) { return channel_->try_evict(which, call); });
  }
  /// Does not wait while another process builds.
  Attempt begin(CacheTurn& turn) {
    return make_attempts(turn, [&](ChannelCall& call) { return turn.try_take(call); });
  }

  [[nodiscard]] Cache& cache() noexcept { return *channel_; }

 private:
  /// Returns the last result if the lock is not free, or something is missing, for a long time.
  template <typename Source, typename Try>
  Attempt make_attempts(Source& source, Try&& one) {
    constexpr int kMost = 30;
    ChannelCall call(*session_);
    Attempt result{};
    for (int i = 0; i < kMost; ++i) {
      result = one(call);
      if (is_final(result) || result == Attempt::full || result == Attempt::empty) break;
      source.prepare(result, call, std::chrono::microseconds(100));
    }
    return result;
  }
};

using CacheTest = ChannelTest<CacheUser>;

}  // namespace shmtensor::testing
