#include "arena/session_memory.hpp"

#include <sys/stat.h>

#include <string>

#include "arena/segment.hpp"
#include "base/align.hpp"
#include "base/error.hpp"
#include "os/limits.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/same_user.hpp"

namespace shmtensor {
namespace {

constexpr std::uint64_t kHeadSize = align_up(sizeof(SessionHeader), TransitTable::kStride);
constexpr std::uint64_t kNames = kHeadSize + kMaxSlots * sizeof(TransitTable);
constexpr std::uint64_t kFileSize = kNames + sizeof(NameTable);

}  // namespace

std::string SessionMemory::file_name(const SessionId& id) { return object_name(id) + "-session"; }

SessionMemory::SessionMemory(const SessionId& id, Fd file, Mapping head)
    : id_(id), file_(std::move(file)), identity_(file_.identity()), head_(std::move(head)) {}

SessionMemory::~SessionMemory() {
  if (descriptor_or_none() < 0) static_cast<void>(file_.release());
  for (const auto& start : transit_) Mapping::adopt(start.load(), sizeof(TransitTable));
  Mapping::adopt(names_.load(), sizeof(NameTable));
}

std::unique_ptr<SessionMemory> SessionMemory::create(const SessionId& id) {
  Fd file = create_memfd(file_name(id));
  set_file_size(file, kFileSize);
  seal_against_shrinking(file);
  if (!reserve_pages(file, 0, kHeadSize)) {
    throw OutOfMemory("cannot start a session: no memory for its slot table");
  }
  Mapping head = Mapping::of_file(file, 0, kHeadSize, Access::read_write);
  std::unique_ptr<SessionMemory> memory(new SessionMemory(id, std::move(file), std::move(head)));
  SessionHeader& header = memory->header();
  header.version = kSessionVersion;
  header.id = id;
  header.key = {random_word(), random_word()};
  AtomicRef<std::uint64_t>(header.magic).store(kSessionMagic, std::memory_order_release);
  return memory;
}

std::unique_ptr<SessionMemory> SessionMemory::open(const SessionId& id, Fd file) {
  const auto refuse = [&](const char* why) {
    throw SessionError("cannot use the memory of session " + id.hex() + ": " + why);
  };
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw_os("inspect a session's memory");
  if (!S_ISREG(info.st_mode) || info.st_size < static_cast<off_t>(kFileSize)) {
    refuse("not a regular file of the expected size");
  }
  if (!owns_file(file)) refuse("the file belongs to another user");
  if (!is_sealed_against_shrinking(file)) refuse("the memfd is not sealed against shrinking");
  Mapping head = Mapping::of_file(file, 0, kHeadSize, Access::read_write);
  std::unique_ptr<SessionMemory> memory(new SessionMemory(id, std::move(file), std::move(head)));
  const SessionHeader& header = memory->header();
  if (header.magic != kSessionMagic || header.version != kSessionVersion) {
    refuse("the file was not created by this version of shmtensor");
  }
  if (header.id != id) refuse("the session id does not match");
  return memory;
}

bool SessionMemory::enter(SlotNumber number, SlotStatus kept) noexcept {
  ProcessLock lock = descriptor_or_none() >= 0 ? ProcessLock::take(file_, number) : ProcessLock();
  const SlotStatus in = lock ? SlotStatus::active : SlotStatus::unlocked;
  if (!slot(number).status.compare_exchange_strong(kept, in)) return false;
  lock_ = std::move(lock);
  entered_.store(number);
  return true;
}

bool SessionMemory::postpone_free() const noexcept {
  const SlotNumber entered = entered_.load();
  if (entered == kNoSlot) return false;
  slot(entered).frees_postponed.store(1);
  return true;
}

bool SessionMemory::is_alive(SlotNumber number) const noexcept {
  const SlotRecord& record = slot(number);
  const SlotStatus status = record.status.load();
  if (status == SlotStatus::active && descriptor_or_none() >= 0) {
    return is_locked(file_, number);
  }
  if (status == SlotStatus::unused) return false;
  return record.pid_namespace.load() != pid_namespace() ||
         shmtensor::is_alive({record.pid.load(), record.start_time.load()});
}

// A process that cannot read the lock, because the program closed the descriptor, relies on the
// connection to the manager.
bool SessionMemory::names_manager(std::uint32_t word) const noexcept {
  if ((word & kRobustThread) == 0) return false;
  if ((word & kManagerLocks) == 0 || descriptor_or_none() < 0) return true;
  return is_locked(file_, kManagerByte);
}

void SessionMemory::claim_manager() {
  Atomic<std::uint32_t>& word = header().manager;
  header().manager_starts.fetch_add(1);
  header().small_tables.store(address_space_limit() != kUnlimited ? 1 : 0);
  if (claim_robust(word)) return;
  lock_ = ProcessLock::take(file(), kManagerByte);
  if (!lock_) {
    throw SessionError(
        "nothing would show that the manager was killed: the system has neither set_robust_list "
        "nor /proc; allow set_robust_list in the seccomp profile, or mount /proc");
  }
  word.store(this_thread_id() | kManagerLocks);
}

std::uint64_t SessionMemory::transit_offset(SlotNumber sender) noexcept {
  return kHeadSize + sender % kMaxSlots * sizeof(TransitTable);
}

std::byte* SessionMemory::map_transit(SlotNumber sender) const {
  Mapping mapping =
      Mapping::of_file(file(), transit_offset(sender), sizeof(TransitTable), Access::read_write);
  std::byte* start = nullptr;
  const bool first = transit_[sender % kMaxSlots].compare_exchange_strong(start, mapping.data());
  return first ? mapping.release() : start;
}

NameTable& SessionMemory::names() const {
  std::byte* start = names_.load(std::memory_order_acquire);
  if (start == nullptr) {
    // A process that has kept an object has reserved them.
    const bool reserved = header().keeps_names.load() != 0;
    if (!reserved && !reserve_pages(file(), kNames, sizeof(NameTable))) {
      throw OutOfMemory("cannot publish: no memory for the session's table of names");
    }
    Mapping mapping = Mapping::of_file(file(), kNames, sizeof(NameTable), Access::read_write);
    if (names_.compare_exchange_strong(start, mapping.data())) start = mapping.release();
  }
  return *reinterpret_cast<NameTable*>(start);
}

const Fd& SessionMemory::file() const {
  if (descriptor_or_none() >= 0) return file_;
  throw SessionError(
      "the descriptor of the memory of session " + id().hex() +
      " was closed by this program; do not close descriptors that you did not open, or use "
      "shmtensor after that");
}

int SessionMemory::mapping_count() const noexcept {
  int count = 1 + (lock_ ? 1 : 0) + (names_.load() != nullptr ? 1 : 0);
  for (const auto& start : transit_) count += start.load() != nullptr ? 1 : 0;
  return count;
}

}  // namespace shmtensor
