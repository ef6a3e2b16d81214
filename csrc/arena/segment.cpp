#include "arena/segment.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "os/futex.hpp"
#include "os/limits.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/same_user.hpp"
#include "os/shm_object.hpp"

namespace shmtensor {
namespace {

constexpr std::uint32_t kFirstCapacity = 1024;

// Address space of this process in which whole data segments are mapped.
Atomic<std::uint64_t> space_of_whole_segments{0};

bool reserve_around(const Fd& file, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t first = align_down(offset, page_size());
  return reserve_pages(file, first, align_up(offset + size, page_size()) - first);
}

[[noreturn]] void throw_no_room(const char* what, ArenaNumber number) {
  throw OutOfMemory(std::string("cannot reserve pages for ") + what + " of arena " +
                    std::to_string(number) +
                    ": shared memory is exhausted; free tensors, or raise the limit of /dev/shm or "
                    "of the memory cgroup");
}

}  // namespace

std::string object_name(const SessionId& session) {
  return std::string(kObjectPrefix) + session.hex();
}

std::string arena_name(const SessionId& session, ArenaNumber number) {
  return object_name(session) + "-" + std::to_string(number);
}

std::unique_ptr<Segment> Segment::create(const SessionId& session, ArenaNumber number,
                                         SlotNumber owner, std::uint32_t owner_incarnation,
                                         Strategy strategy, SegmentLayout layout,
                                         const DeviceId& device, std::uint64_t visible_in) {
  std::unique_ptr<Segment> segment(new Segment);
  segment->session_ = session;
  segment->number_ = number;
  segment->strategy_ = strategy;
  segment->layout_ = layout;
  segment->made_here_ = true;
  const std::string name = arena_name(session, number);
  const bool named = strategy == Strategy::file_system;
  Fd file = named ? create_shm(name) : create_memfd(name);
  try {
    set_file_size(file, layout.data());
    if (!named) seal_against_shrinking(file);
    const std::uint64_t head =
        is_on_device(strategy) ? layout.records() : std::uint64_t{page_size()};
    if (!reserve_pages(file, 0, head)) throw_no_room("the header", number);
    segment->identity_ = file.identity();
    segment->map_control(file);
    ArenaHeader& header = segment->header();
    header.version = kArenaVersion;
    header.strategy = strategy;
    header.session = session;
    header.number = number;
    header.owner = owner;
    header.owner_incarnation = owner_incarnation;
    header.max_blocks = layout.max_blocks;
    header.data_reserve = layout.data_reserve;
    header.pid_namespace = visible_in;
    header.device = device;
    const std::uint64_t middle = layout.freed() + layout.max_blocks / 8;
    if (!reserve_around(file, middle, layout.max_blocks / 512)) {
      throw_no_room("the freed map", number);
    }
    if (!named) segment->file_ = std::move(file);
    segment->ensure_plane(owner);
    segment->grow_capacity();
    AtomicRef<std::uint64_t>(header.magic).store(kArenaMagic, std::memory_order_release);
  } catch (...) {
    if (named) unlink_shm(name);
    throw;
  }
  return segment;
}

std::unique_ptr<Segment> Segment::open(const SessionId& session, ArenaNumber number, Fd file) {
  const auto refuse = [&](const char* why) {
    throw SessionError("cannot use arena " + std::to_string(number) + " of session " +
                       session.hex() + ": " + why);
  };
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_os("inspect an arena");
  if (!S_ISREG(info.st_mode)) refuse("not a regular file");
  if (!owns_file(file)) refuse("the file belongs to another user");
  if (info.st_size < static_cast<off_t>(page_size())) refuse("the file is too short");

  std::unique_ptr<Segment> segment(new Segment);
  segment->session_ = session;
  segment->number_ = number;
  segment->identity_ = file.identity();
  {
    const Mapping first = Mapping::of_file(file, 0, page_size(), Access::read_only);
    const auto& header = *reinterpret_cast<const ArenaHeader*>(first.data());
    if (header.magic != kArenaMagic || header.version != kArenaVersion) {
      refuse("the file was not created by this version of shmtensor");
    }
    if (header.session != session || header.number != number)
      refuse("the session id or arena number does not match");
    segment->strategy_ = header.strategy;
    segment->layout_ = {header.max_blocks, header.data_reserve};
  }
  const bool named = segment->strategy_ == Strategy::file_system;
  if (segment->strategy_ < Strategy::file_descriptor || segment->strategy_ > Strategy::external) {
    refuse("unknown strategy");
  }
  if (!segment->layout_.valid()) refuse("the header is damaged");
  if (info.st_size < static_cast<off_t>(segment->layout_.data())) refuse("the file is too short");
  if (!named && !is_sealed_against_shrinking(file))
    refuse("the memfd is not sealed against shrinking");
  segment->map_control(file);
  if (!named) segment->file_ = std::move(file);
  return segment;
}

std::unique_ptr<Segment> Segment::open_named(const SessionId& session, ArenaNumber number) {
  return open(session, number, open_shm(arena_name(session, number)));
}

void Segment::map_control(const Fd& file) {
  control_ = Mapping::of_file(file, 0, layout_.data(), Access::read_write);
}

Segment::~Segment() {
  space_of_whole_segments.fetch_sub(whole_.load());
  if (!file_.still_is(identity_)) static_cast<void>(file_.release());
}

std::byte* Segment::data(Access access, std::uint64_t offset, std::uint64_t size) const {
  if (std::byte* start = data_if_mapped(access, offset, size)) return start;
  map_all(access);
  if (std::byte* start = data_if_mapped(access, offset, size)) return start;
  const std::uint64_t end = offset + std::max<std::uint64_t>(size, 1);
  map(access, align_down(offset, kWindow), std::min(align_up(end, kWindow), layout_.data_reserve));
  return data_if_mapped(access, offset, size);
}

void Segment::map_all(Access access) const {
  const std::uint64_t size = layout_.data_reserve;
  if (data_if_mapped(access, 0, size) != nullptr || !may_map_all()) return;
  try {
    map(access, 0, size);
    whole_.fetch_add(size);
    space_of_whole_segments.fetch_add(size);
  } catch (const OsError& error) {
    if (!is_address_shortage(error.code())) throw;
  }
}

// The reserve of an arena follows from the memory and the limits of its owner. A peer uses no more
// of its address space for one arena than an owner with a limit would, and for all arenas together
// a half: the rest is for tables, windows and the program.
bool Segment::may_map_all() const noexcept {
  if (made_here_) return true;
  const std::uint64_t space = address_space();
  const std::uint64_t all = space_of_whole_segments.load() + layout_.data_reserve;
  return layout_.data_reserve <= space / 16 && all <= space / 2;
}

void Segment::map(Access access, std::uint64_t begin, std::uint64_t end) const {
  Mapping memory = Mapping::of_file(*file(), layout_.data() + begin, end - begin, access);
  AddressRange range = list(memory.data(), memory.size(), begin);
  windows(access).add(begin, std::move(memory), std::move(range));
}

AddressRange Segment::list(const std::byte* begin, std::uint64_t size, std::uint64_t offset) const {
  return arena_ != nullptr ? AddressRange(begin, size, *arena_, offset) : AddressRange();
}

std::uint64_t Segment::data_in_file() const {
  if (!file_.still_is(identity_)) return layout_.data_reserve;
  const std::uint64_t size = file_size(file_);
  return size - std::min(size, layout_.data());
}

void Segment::notify_owner() const noexcept {
  if (strategy_ != Strategy::external) return;
  header().wake_sequence.fetch_add(1);
  wake_all(header().wake_sequence);
}

void Segment::drop_descriptor(std::function<Fd()> fetch) {
  fetch_ = std::move(fetch);
  file_.reset();
}

Segment::File Segment::file() const {
  if (file_.still_is(identity_)) return File(&file_);
  const std::string name = arena_name(session_, number_);
  const bool named = strategy_ == Strategy::file_system;
  if (!named && !fetch_) {
    throw SessionError("the descriptor of " + name +
                       " was closed by this program; do not close descriptors you did not open");
  }
  Fd opened = named ? open_shm(name) : fetch_();
  if (!opened.still_is(identity_)) throw SessionError(name + " was replaced by another file");
  return File(std::move(opened));
}

// Pages must exist before any process reads them: if shared memory is exhausted, reading a hole
// raises SIGBUS. The owner creates records in every plane, and other processes create a plane for
// every record. Each side first announces what it creates, then reads what the other side has
// announced. So at least one of them creates the pages where both meet, before it declares its own
// part complete. Both sides are sequentially consistent. If a process is killed in between, the
// next process completes the work.
void Segment::ensure_plane(SlotNumber slot) const {
  const std::uint32_t plane = plane_of(slot);
  ArenaHeader& head = header();
  if (has_plane(slot)) return;
  head.planes_wanted.fetch_or(1u << plane);
  const std::uint64_t blocks = std::min(head.capacity_wanted.load(), layout_.max_blocks);
  const File backing = file();
  if (!reserve_around(*backing, layout_.holders(plane), blocks * 8) ||
      !reserve_around(*backing, layout_.senders(plane), blocks * 8)) {
    throw_no_room("the holder bits", number_);
  }
  head.planes.fetch_or(1u << plane);
}

void Segment::grow_capacity() const {
  ArenaHeader& head = header();
  const std::uint32_t old = capacity();
  const std::uint32_t target = std::min(std::max(kFirstCapacity, old * 2), layout_.max_blocks);
  const std::uint64_t added = target - old;
  const File backing = file();
  const auto reserve = [&](std::uint64_t part, std::uint64_t bits_per_block) {
    if (!reserve_around(*backing, part + old * bits_per_block / 8, added * bits_per_block / 8)) {
      head.capacity_wanted.store(old);
      throw_no_room("the block table", number_);
    }
  };
  head.capacity_wanted.store(target);
  const std::uint32_t wanted = head.planes_wanted.load();
  reserve(layout_.records(), 8 * sizeof(BlockRecord));
  reserve(layout_.freed(), 1);
  for (std::uint32_t plane = 0; plane < kPlanes; ++plane) {
    if ((wanted & 1u << plane) == 0) continue;
    reserve(layout_.holders(plane), 64);
    reserve(layout_.senders(plane), 64);
  }
  head.capacity.store(target);
}

int Segment::mapping_count() const noexcept {
  return 1 + windows_[0].count() + windows_[1].count();
}

}  // namespace shmtensor
