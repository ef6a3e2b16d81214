#include "manager/orphan_reclaim.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "arena/block_word.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "os/mapping.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

// Of the blocks one in so many, or so many bytes, must be freed to be worth a walk.
constexpr std::uint64_t kShareWorthAWalk = 8;
constexpr std::uint64_t kWorthAWalk = 64 * kMiB;

constexpr std::uint64_t kStep = 16 * kMiB;
constexpr std::uint64_t kLook = 64 * kKiB;  // the cost of a step over a range without pages

}  // namespace

bool ReclaimQuota::discard(const Fd& file, std::uint64_t& at, std::uint64_t end) {
  while (at < end && left_ != 0) {
    // A page that two steps share would not be released by either.
    const std::uint64_t next = std::min(align_down(at, page_size()) + kStep, end);
    const std::uint64_t before = file_usage(file);
    discard_pages(file, at, next - at);
    const std::uint64_t freed = before - std::min(before, file_usage(file));
    left_ -= std::min(left_, freed + kLook);
    at = next;
  }
  return at >= end;
}

void OrphanReclaim::note_freed(const Segment& segment) {
  const FreedMap freed = segment.freed();
  if (!freed.any()) return;
  freed.take([&](BlockNumber block) {
    ++freed_;
    if (block < segment.capacity()) {
      freed_bytes_ += std::min(segment.record(block).size.load(), kWorthAWalk);
    }
  });
  const bool on_device = segment.strategy() == Strategy::device;  // and no walk is long
  if (on_device || freed_ >= live_ / kShareWorthAWalk || freed_bytes_ >= kWorthAWalk) {
    restart();
  }
}

void OrphanReclaim::restart_if_any_freed(const Segment& segment) {
  note_freed(segment);
  if (freed_ != 0) restart();
}

bool OrphanReclaim::run(const Segment& segment, Chunks& chunks, ReclaimQuota& quota) {
  note_freed(segment);
  if (released_ == kAll) return true;
  try {
    if (segment.strategy() == Strategy::device) return release_chunks(segment, chunks);
    if (release_gaps(segment, quota)) return true;
    if (segment.strategy() == Strategy::file_system) {
      unlink_shm(arena_name(segment.session(), segment.number()));
    }
  } catch (const OsError& error) {
    if (error.code() != ENOENT) {
      // Descriptors or memory may be short. The next freed block, or the next death of a member,
      // causes another attempt.
      released_ = kAll;
      return true;
    }
  } catch (const Error&) {
    // The name now refers to another file.
  }
  return false;  // no process can open the arena any more
}

// No process allocates in an orphan arena, so the memory between its live blocks is unused. Returns
// false if the arena has no live block, and all of its memory has been released.
bool OrphanReclaim::release_gaps(const Segment& segment, ReclaimQuota& quota) {
  const Segment::File file = segment.file();
  const std::uint64_t data = segment.layout().data();
  // If the owner was killed while it extended the file, the file is larger than the committed size.
  const std::uint64_t end =
      std::clamp(file_size(*file), data, data + segment.layout().data_reserve);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  const std::uint32_t capacity = segment.capacity();
  for (BlockNumber block = 0; block < capacity; ++block) {
    const BlockRecord& record = segment.record(block);
    if (BlockWord(record.word.load()).is_free()) continue;
    const std::uint64_t offset = record.offset.load();
    const std::uint64_t size = record.size.load();
    if (!fits(offset, size, end - data)) {  // a damaged record: release nothing
      released_ = kAll;
      return true;
    }
    live.emplace_back(data + offset, data + offset + size);
  }
  std::sort(live.begin(), live.end());
  const bool any = !live.empty();
  if (released_ == 0) {
    live_ = live.size();
    freed_ = 0;
    freed_bytes_ = 0;
  }
  live.emplace_back(end, end);
  segment.header().discards.fetch_add(1);
  std::uint64_t at = data;
  for (const auto& [first, last] : live) {
    released_ = std::max(released_, at);
    const bool whole_page = align_up(released_, page_size()) + page_size() <= first;
    if (whole_page && !quota.discard(*file, released_, first)) return true;
    at = std::max(at, last);
  }
  released_ = kAll;
  return any;
}

// Closes the descriptors that hold the device memory of chunks without blocks. Returns true if a
// block is left.
bool OrphanReclaim::release_chunks(const Segment& segment, Chunks& chunks) {
  std::array<bool, kMaxChunks> used{};
  bool any = false;
  released_ = kAll;
  const std::uint32_t capacity = segment.capacity();
  for (BlockNumber block = 0; block < capacity; ++block) {
    const BlockRecord& record = segment.record(block);
    if (BlockWord(record.word.load()).is_free()) continue;
    any = true;
    const std::uint64_t chunk = record.offset.load() >> kChunkShift;
    if (chunk >= kMaxChunks) return true;  // a damaged record: release nothing
    used[chunk] = true;
  }
  for (std::uint32_t chunk = 0; chunk < kMaxChunks; ++chunk) {
    if (used[chunk]) continue;
    segment.chunk(chunk).size.store(0);
    chunks.erase(chunk);
  }
  return any;
}

}  // namespace shmtensor
