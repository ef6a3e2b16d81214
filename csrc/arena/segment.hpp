// One arena's shared file, mapped: the control segment read-write by every peer, the data segment
// with the access that was asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "arena/freed_map.hpp"
#include "arena/layout.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace shmtensor {

/// Prefix of every name of ours: memfds, /dev/shm entries, sockets.
[[nodiscard]] std::string object_name(const SessionId& session);
[[nodiscard]] std::string arena_name(const SessionId& session, ArenaNumber number);

/// Threads: all members may be called at the same time.
/// Processes: the owner grows the file; everybody else maps it.
class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Makes the file and its first block records. Throws OutOfMemory.
  static std::unique_ptr<Segment> create(const SessionId& session, ArenaNumber number,
                                         SlotNumber owner, std::uint32_t owner_life,
                                         Strategy strategy, Geometry geometry,
                                         const DeviceId& device = {});

  /// Maps somebody else's file after checking that it is what it says it is. The descriptor is kept
  /// for a memfd and closed for a named object. Throws SessionError.
  static std::unique_ptr<Segment> open(const SessionId& session, ArenaNumber number, Fd file);

  /// The same for a named object. Throws OsError (ENOENT) when the name is gone.
  static std::unique_ptr<Segment> open_named(const SessionId& session, ArenaNumber number);

  [[nodiscard]] ArenaHeader& header() const noexcept {
    return *reinterpret_cast<ArenaHeader*>(control_.data());
  }
  [[nodiscard]] const SessionId& session() const noexcept { return session_; }
  [[nodiscard]] ArenaNumber number() const noexcept { return number_; }
  [[nodiscard]] Strategy strategy() const noexcept { return strategy_; }
  [[nodiscard]] const Geometry& geometry() const noexcept { return geometry_; }

  [[nodiscard]] std::uint32_t capacity() const noexcept {
    return std::min(header().capacity.load(std::memory_order_acquire), geometry_.max_blocks);
  }
  [[nodiscard]] std::uint32_t planes() const noexcept {
    return header().planes.load() & ((1u << kPlanes) - 1);
  }
  /// Are bits of that slot seen by everybody?
  [[nodiscard]] bool has_plane(SlotNumber slot) const noexcept {
    return (planes() & 1u << plane_of(slot)) != 0;
  }
  [[nodiscard]] BlockRecord& record(BlockNumber block) const noexcept {
    return reinterpret_cast<BlockRecord*>(control_.data() + geometry_.records())[block];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& holders(std::uint32_t plane,
                                                    BlockNumber block) const noexcept {
    return words(geometry_.holders(plane))[block];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& senders(std::uint32_t plane,
                                                    BlockNumber block) const noexcept {
    return words(geometry_.senders(plane))[block];
  }
  [[nodiscard]] FreedMap freed() const noexcept {
    return {&header().freed_top, words(geometry_.freed()), geometry_.max_blocks};
  }

  /// Strategy::device and in_place: the record of a chunk, below kMaxChunks.
  [[nodiscard]] ChunkRecord& chunk(std::uint64_t number) const noexcept {
    return reinterpret_cast<ChunkRecord*>(control_.data() + Geometry::kChunks)[number];
  }

  /// A block may have been freed: tells the owner if it waits for that.
  void tell_owner() const noexcept;

  /// Where the data segment begins in this process. Mapped at the first call for each access.
  /// Throws OsError when address space is short.
  std::byte* data(Access access) const;
  /// The same; null while it is not mapped.
  [[nodiscard]] std::byte* data_if_mapped(Access access) const noexcept {
    return data_[static_cast<std::size_t>(access)].load(std::memory_order_acquire);
  }

  /// Bytes of the data segment that the file has, whatever the header says: the file cannot be
  /// shortened. All that may be mapped where no descriptor is at hand to ask, or anybody could
  /// shorten it.
  [[nodiscard]] std::uint64_t data_in_file() const;

  /// Makes the pages exist in which holders and senders of this slot's plane keep their bits.
  /// To be called before a slot sets its first bit here. Throws OutOfMemory.
  void ensure_plane(SlotNumber slot) const;

  /// The owner's: makes more block records. Throws OutOfMemory.
  void grow_capacity() const;

  /// The descriptor of the file; opened by name for the moment if none is kept.
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

  /// Does a descriptor stay open in this process for the segment's sake?
  [[nodiscard]] bool keeps_descriptor() const noexcept { return static_cast<bool>(file_); }
  /// Closes the descriptor of a memfd; `fetch` gets it again for the rare moments that need it.
  void drop_descriptor(std::function<Fd()> fetch);
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }

  /// Mappings this process has of the segment, for statistics.
  [[nodiscard]] int mapping_count() const noexcept;

 private:
  Segment() = default;
  [[nodiscard]] std::atomic<std::uint64_t>* words(std::uint64_t offset) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(control_.data() + offset);
  }
  void map_control(const Fd& file);

  SessionId session_;
  ArenaNumber number_ = 0;
  Strategy strategy_ = Strategy::file_descriptor;
  Geometry geometry_;
  FileIdentity identity_;
  Fd file_;  // empty for a named object
  std::function<Fd()> fetch_;
  Mapping control_;
  mutable std::atomic<std::byte*> data_[2]{};  // mappings by Access; published without a lock, so
                                               // that a fork never finds one taken
};

}  // namespace shmtensor
