// The mapped shared file of one arena. Every peer maps the control segment read-write, and the data
// segment with the requested access.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "arena/freed_map.hpp"
#include "arena/layout.hpp"
#include "arena/windows.hpp"
#include "base/atomic.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"
#include "os/process.hpp"

namespace shmtensor {

/// Prefix of the names of all objects of all sessions.
inline constexpr std::string_view kObjectPrefix = "shmtensor-";

/// Prefix of the names of all objects of a session: memfds, /dev/shm entries, sockets.
[[nodiscard]] std::string object_name(const SessionId& session);
[[nodiscard]] std::string arena_name(const SessionId& session, ArenaNumber number);

/// Threads: all members may be called simultaneously.
/// Processes: the owner grows the file; all others map it.
class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Creates the file and its first block records. `visible_in` is a PID namespace whose /proc
  /// shows this process and the children that inherit the segment. Throws OutOfMemory.
  static std::unique_ptr<Segment> create(const SessionId& session, ArenaNumber number,
                                         SlotNumber owner, std::uint32_t owner_incarnation,
                                         Strategy strategy, SegmentLayout layout,
                                         const DeviceId& device = {},
                                         std::uint64_t visible_in = pid_namespace());

  /// Checks the file of a peer, then maps it. The descriptor is kept for a memfd and closed for a
  /// named object. Throws SessionError.
  static std::unique_ptr<Segment> open(const SessionId& session, ArenaNumber number, Fd file);

  /// The same for a named object. Throws OsError (ENOENT) if the name does not exist.
  static std::unique_ptr<Segment> open_named(const SessionId& session, ArenaNumber number);

  [[nodiscard]] ArenaHeader& header() const noexcept {
    return *reinterpret_cast<ArenaHeader*>(control_.data());
  }
  [[nodiscard]] const SessionId& session() const noexcept { return session_; }
  [[nodiscard]] ArenaNumber number() const noexcept { return number_; }
  [[nodiscard]] Strategy strategy() const noexcept { return strategy_; }
  [[nodiscard]] const SegmentLayout& layout() const noexcept { return layout_; }

  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return std::min(header().capacity.load(std::memory_order_acquire), layout_.max_blocks);
  }
  /// Returns a bit for each plane that processes must read.
  [[nodiscard]] std::uint32_t planes() const noexcept {
    return header().planes.load() & ((1u << kPlanes) - 1);
  }
  /// Return true if all processes see the bits of that slot.
  [[nodiscard]] bool has_plane(SlotNumber slot) const noexcept {
    return (planes() & 1u << plane_of(slot)) != 0;
  }
  [[nodiscard]] BlockRecord& record(BlockNumber block) const noexcept {
    return reinterpret_cast<BlockRecord*>(control_.data() + layout_.records())[block];
  }
  [[nodiscard]] Atomic<std::uint64_t>& holders(std::uint32_t plane,
                                               BlockNumber block) const noexcept {
    return words(layout_.holders(plane))[block];
  }
  [[nodiscard]] Atomic<std::uint64_t>& senders(std::uint32_t plane,
                                               BlockNumber block) const noexcept {
    return words(layout_.senders(plane))[block];
  }
  [[nodiscard]] FreedMap freed() const noexcept {
    return {&header().freed_top, words(layout_.freed()), layout_.max_blocks};
  }

  /// Strategy::device and external: the record of a chunk. Requires `number < kMaxChunks`.
  [[nodiscard]] ChunkRecord& chunk(std::uint64_t number) const noexcept {
    return reinterpret_cast<ChunkRecord*>(control_.data() + SegmentLayout::kChunks)[number];
  }

  /// Notifies the owner, if it waits, that a block may have been freed.
  void notify_owner() const noexcept;

  /// Returns the address of a range of the data segment in this process. The first call for each
  /// access maps the whole segment, or, where address space is short, a window around the range.
  /// Throws OsError if neither fits.
  std::byte* data(Access access, std::uint64_t offset, std::uint64_t size) const;
  /// The same; null while the range is not mapped.
  [[nodiscard]] std::byte* data_if_mapped(Access access, std::uint64_t offset,
                                          std::uint64_t size) const noexcept {
    return windows(access).find(offset, size);
  }
  /// Names the arena of the segment, for AddressMap. Called before any data is mapped.
  void used_by(Arena& arena) noexcept { arena_ = &arena; }
  /// Lists addresses at which data is mapped, from `offset` on. Without an arena, lists nothing.
  [[nodiscard]] AddressRange list(const std::byte* begin, std::uint64_t size,
                                  std::uint64_t offset) const;
  /// Maps the whole data segment, unless address space is short.
  void map_all(Access access) const;

  /// Returns the bytes of the data segment that are in the file, independent of the header; the
  /// file cannot be shortened. If there is no descriptor to query, or any process could shorten the
  /// file, returns all that may be mapped.
  [[nodiscard]] std::uint64_t data_in_file() const;

  /// Creates the pages in which holders and senders of this slot's plane store their bits, and
  /// makes every process read them. Must be called before a slot sets its first bit in the arena.
  /// Throws OutOfMemory.
  void ensure_plane(SlotNumber slot) const;

  /// For the owner: creates more block records. Throws OutOfMemory.
  void grow_capacity() const;

  /// The descriptor of the file; opened temporarily by name if none is kept.
  class File {
   public:
    explicit File(const Fd* kept) : kept_(kept) {}
    explicit File(Fd opened) : opened_(std::move(opened)) {}
    [[nodiscard]] const Fd& operator*() const noexcept {
      return kept_ != nullptr ? *kept_ : opened_;
    }

   private:
    const Fd* kept_ = nullptr;
    Fd opened_;
  };
  [[nodiscard]] File file() const;

  /// Return true if this process keeps a descriptor of the segment open.
  [[nodiscard]] bool keeps_descriptor() const noexcept { return static_cast<bool>(file_); }
  /// Closes the descriptor of a memfd; `fetch` returns another one for the rare operations that
  /// need it.
  void drop_descriptor(std::function<Fd()> fetch);
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }

  /// Returns the number of mappings of the segment in this process, for statistics.
  [[nodiscard]] int mapping_count() const noexcept;

 private:
  static constexpr std::uint64_t kWindow = 16 * kMiB;

  Segment() = default;
  [[nodiscard]] Windows& windows(Access access) const noexcept {
    return windows_[static_cast<std::size_t>(access)];
  }
  void map(Access access, std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] bool may_map_all() const noexcept;
  [[nodiscard]] Atomic<std::uint64_t>* words(std::uint64_t offset) const noexcept {
    return reinterpret_cast<Atomic<std::uint64_t>*>(control_.data() + offset);
  }
  void map_control(const Fd& file);

  SessionId session_;
  ArenaNumber number_ = 0;
  Strategy strategy_ = Strategy::file_descriptor;
  SegmentLayout layout_;
  FileIdentity identity_;
  Fd file_;  // empty for a named object
  std::function<Fd()> fetch_;
  bool made_here_ = false;
  Arena* arena_ = nullptr;
  Mapping control_;
  mutable Windows windows_[2];              // of the data segment, by Access
  mutable Atomic<std::uint64_t> whole_{0};  // bytes of those that have all of it
};

}  // namespace shmtensor
