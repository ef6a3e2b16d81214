#include "channel/cache_turn.hpp"

#include "channel/channel_call.hpp"
#include "channel/spin_then_sleep.hpp"
#include "os/thread_number.hpp"
#include "queue/wait_flag.hpp"

namespace shmtensor {

Attempt CacheTurn::try_take(ChannelCall& call) {
  return call.with_lock(cache_.header_.changes, [&] { return take(call); });
}

// An item is added before its build ends. So if it is not there, and no process builds it, none has
// built it.
Attempt CacheTurn::take(ChannelCall& call) {
  if (!cache_.open_tables(call)) return Attempt::unmapped;
  if (const auto found = cache_.find(key_)) {
    const Attempt lost = cache_.remove_lost(*found, call);
    if (lost == Attempt::unmapped) return lost;
    is_there_ = lost == Attempt::empty;
    if (is_there_) return Attempt::done;
  }
  CacheBuild* free = nullptr;
  for (CacheBuild& build : cache_.header_.builds) {
    if (build.is_of(key_)) {
      other_ = &build;
      serial_ = build.serial.load();
      return Attempt::empty;
    }
    if (free == nullptr && build.owner.load() == 0) free = &build;
  }
  other_ = nullptr;
  if (free == nullptr) return Attempt::done;
  free->serial.store(free->serial.load() + 1);
  free->first.store(key_.first);
  free->second.store(key_.second);
  free->thread.store(thread_number());
  free->owner.store(cache_.session_.slot() + 1u);
  record_ = static_cast<std::uint32_t>(free - cache_.header_.builds.data());
  return Attempt::done;
}

bool CacheTurn::is_recursive() const noexcept {
  return other_ != nullptr && other_->owner.load() == cache_.session_.slot() + 1u &&
         other_->thread.load() == thread_number();
}

void CacheTurn::prepare(Attempt attempt, ChannelCall& call, std::chrono::nanoseconds time) {
  if (attempt != Attempt::empty) return cache_.prepare(attempt, call, time);
  spin_then_sleep(
      cache_.session_, cache_.spin_, cache_.header_.builders, -1,
      [this] { return other_->owner.load() == 0 || other_->serial.load() != serial_; }, time);
}

void CacheTurn::end(Cache& cache, std::uint32_t record) noexcept {
  CacheBuild& build = cache.header_.builds[record % CacheHeader::kBuilds];
  if (build.owner.load() != cache.session_.slot() + 1u || build.thread.load() != thread_number()) {
    return;
  }
  build.owner.store(0);
  WaitFlag(cache.header_.builders).notify_everyone();
}

}  // namespace shmtensor
