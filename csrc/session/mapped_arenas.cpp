#include "session/mapped_arenas.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "arena/address_map.hpp"
#include "cuda/device_data_segment.hpp"

namespace shmtensor {
namespace {

std::size_t index_of(Placement placement) noexcept {
  const auto strategy = static_cast<std::size_t>(placement.strategy);
  return placement.strategy == Strategy::device
             ? 4 + static_cast<std::size_t>(placement.device) % 16
             : strategy - 1;
}

bool is_on(const Arena& arena, Placement placement) {
  if (arena.segment().strategy() != placement.strategy) return false;
  return placement.strategy != Strategy::device ||
         static_cast<const cuda::DeviceDataSegment&>(arena.data()).gpu().number() ==
             placement.device;
}

}  // namespace

PinnedArena MappedArenas::add(std::unique_ptr<Arena> arena) {
  const ArenaNumber number = arena->segment().number();
  const LockGuard guard(lock_);
  return PinnedArena(*arenas_.try_emplace(number, std::move(arena)).first->second);
}

PinnedArena MappedArenas::find(ArenaNumber number) noexcept {
  const LockGuard guard(lock_);
  const auto at = arenas_.find(number);
  return at != arenas_.end() ? PinnedArena(*at->second) : PinnedArena();
}

template <typename Choose>
std::vector<PinnedArena> MappedArenas::pin(Choose&& choose) {
  std::vector<PinnedArena> found;
  const LockGuard guard(lock_);
  for (auto& [number, arena] : arenas_) {
    if (choose(*arena)) found.emplace_back(*arena);
  }
  return found;
}

std::vector<PinnedArena> MappedArenas::all() {
  return pin([](const Arena&) { return true; });
}

std::vector<PinnedArena> MappedArenas::owned() {
  return pin([](const Arena& arena) { return arena.owned(); });
}

std::vector<PinnedArena> MappedArenas::owned(Placement placement) {
  std::vector<PinnedArena> found = owned();
  std::erase_if(found, [&](const PinnedArena& arena) { return !is_on(*arena, placement); });
  return found;
}

ArenaNumber MappedArenas::newest(Placement placement) {
  ArenaNumber newest = 0;
  for (const PinnedArena& arena : owned(placement)) {
    newest = std::max(newest, arena->segment().number());
  }
  return newest;
}

PinnedArena MappedArenas::current(Placement placement) {
  PinnedArena arena;
  {
    const LockGuard guard(lock_);
    if (Arena* current = current_[index_of(placement)]) arena = PinnedArena(*current);
  }
  if (arena && !is_on(*arena, placement)) arena.reset();
  return arena;
}

void MappedArenas::set_current(Placement placement, Arena* arena) noexcept {
  const LockGuard guard(lock_);
  current_[index_of(placement)] = arena;
}

template <typename Choose>
std::vector<std::unique_ptr<Arena>> MappedArenas::take(Choose&& choose) {
  std::vector<std::unique_ptr<Arena>> taken;  // destroyed by the caller, without the lock
  const LockGuard guard(lock_);
  for (auto at = arenas_.begin(); at != arenas_.end();) {
    Arena& arena = *at->second;
    const bool current = std::ranges::find(current_, &arena) != std::end(current_);
    if (current || arena.in_use() || !choose(arena)) {
      ++at;
      continue;
    }
    taken.push_back(std::move(at->second));
    at = arenas_.erase(at);
  }
  return taken;
}

std::vector<std::unique_ptr<Arena>> MappedArenas::take_empty() {
  return take([](Arena& arena) {
    return arena.owned() && !is_on_device(arena.segment().strategy()) && arena.is_empty();
  });
}

std::vector<std::unique_ptr<Arena>> MappedArenas::take_unused(bool orphans_only) {
  return take([orphans_only](Arena& arena) {
    return !arena.owned() && (!orphans_only || arena.segment().header().orphaned.load() != 0);
  });
}

bool MappedArenas::in_use() noexcept {
  const LockGuard guard(lock_);
  return std::any_of(arenas_.begin(), arenas_.end(), [](const auto& pair) {
    return pair.second->owned() || pair.second->in_use();
  });
}

MappedArenas::Usage MappedArenas::usage() noexcept {
  Usage usage;
  const LockGuard guard(lock_);
  for (const auto& [number, arena] : arenas_) {
    ++usage.arenas;
    usage.reserved += arena->reserved();
    usage.descriptors +=
        (arena->segment().keeps_descriptor() ? 1 : 0) + arena->data().descriptor_count();
    usage.mappings += arena->segment().mapping_count();
  }
  return usage;
}

void MappedArenas::lock_for_fork() noexcept {
  {
    const LockGuard guard(lock_);
    for (auto& [number, arena] : arenas_) {
      arena->pin();
      arena->link_for_fork(std::exchange(forked_, arena.get()));
    }
  }
  for_each_in_fork([](Arena& arena) { arena.lock_for_fork(); });
}

void MappedArenas::unlock_forked() noexcept {
  while (forked_ != nullptr) {
    Arena& arena = *forked_;
    forked_ = arena.unlink_after_fork();
    arena.unlock_after_fork();
    arena.unpin();  // last: another thread may unmap it now
  }
}

void MappedArenas::unlock_in_parent() noexcept {
  lock_.unlock();
  unlock_forked();
}

bool MappedArenas::unlock_in_child(SlotNumber slot) noexcept {
  // An arena that another thread added during the fork may be locked by that thread, which does not
  // exist in the child; the child holds none of its blocks. The same applies to an arena in which
  // this process has no plane for its bits.
  for (auto& [number, arena] : arenas_) {
    const bool added = !arena->in_fork();
    const bool mute =
        slot != kNoSlot && arena->survives_fork() && !arena->segment().has_plane(slot);
    if (!added && !mute) continue;
    AddressMap::get().forget_in_child(*arena);
    static_cast<void>(arena.release());
  }
  std::erase_if(arenas_, [](const auto& pair) { return pair.second == nullptr; });
  std::ranges::fill(current_, nullptr);
  bool holds = false;
  for_each_in_fork([&](Arena& arena) {
    holds = holds || (arena.survives_fork() && arena.holds_any());
    arena.disown();
  });
  unlock_forked();
  lock_.unlock();
  return holds;
}

}  // namespace shmtensor
