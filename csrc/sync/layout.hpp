// The layout of locks and other synchronization primitives in shared memory. docs/design/locks.md
// proves their protocols.
//
// Each primitive is one block. A process may be killed at any instruction, so each step that others
// see is one store or compare-and-swap of one word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "arena/ticket_record.hpp"
#include "base/atomic.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"

namespace shmtensor::sync {

inline constexpr std::uint64_t kMagic = 0x3165'7669'7469'6d70;  // "pmitive1"

enum class Kind : std::uint8_t { lock = 1, semaphore, event, condition, barrier };

/// How a block of a primitive begins. Constant.
struct Header {
  Atomic<std::uint64_t> magic;
  Atomic<Kind> kind;
};

/// Of a lock, or a recursive lock.
struct LockWords {
  static constexpr Kind kKind = Kind::lock;

  Header header;
  Atomic<std::uint32_t> owner;      ///< OwnerLock
  Atomic<std::uint32_t> depth;      ///< of a recursive lock: how often its owner has it
  Atomic<std::uint64_t> thread;     ///< of the owner: slot + 1:32 | number:32; 0: none
  Atomic<std::uint32_t> died;       ///< 1: the last owner died, and no other knows
  Atomic<std::int32_t> dead_pid;    ///< of that owner
  Atomic<std::uint32_t> is_silent;  ///< constant; 1: the next owner gets no error
  Atomic<std::uint64_t> died_at;    ///< in `coarse_milliseconds`
};
static_assert(sizeof(LockWords) <= 64);

/// What a process has of a primitive: slot + 1:32 | count:32. The word of a process is anywhere;
/// one with count 0 is free.
class Share {
 public:
  Share() noexcept = default;
  explicit constexpr Share(std::uint64_t bits) noexcept : bits_(bits) {}
  constexpr Share(SlotNumber slot, std::uint32_t count) noexcept
      : bits_((std::uint64_t{slot} + 1) << 32 | count) {}

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  /// No slot of a word that was never used.
  [[nodiscard]] constexpr std::uint32_t slot() const noexcept {
    return static_cast<std::uint32_t>(bits_ >> 32) - 1;
  }
  [[nodiscard]] constexpr std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(bits_);
  }
  [[nodiscard]] constexpr Share with(std::uint32_t count) const noexcept {
    return Share((bits_ & ~std::uint64_t{0xffff'ffff}) | count);
  }

 private:
  std::uint64_t bits_ = 0;
};

/// Its shares are units. value = base - the units of all processes; the lock is held to change it.
struct SemaphoreWords {
  static constexpr Kind kKind = Kind::semaphore;

  Header header;
  Atomic<std::uint32_t> lock;      ///< OwnerLock
  Atomic<std::uint32_t> waiters;   ///< WaitFlag
  Atomic<std::uint32_t> base;      ///< units that exist
  Atomic<std::uint32_t> initial;   ///< constant; at most so many units have an owner
  Atomic<std::uint32_t> bounded;   ///< constant; 1: the value is never above the initial one
  Atomic<std::uint32_t> returned;  ///< units of dead processes for which a release may still come
  Atomic<std::uint32_t> used;      ///< no share from this one on was ever used
};
static_assert(sizeof(SemaphoreWords) <= 64);

struct EventWords {
  static constexpr Kind kKind = Kind::event;

  Header header;
  Atomic<std::uint32_t> changes;  ///< odd: the event is set
  Atomic<std::uint32_t> waiters;  ///< WaitFlag
};

struct ConditionWords {
  static constexpr Kind kKind = Kind::condition;

  Header header;
  Atomic<std::uint32_t> used;  ///< no process from this one on was ever used
  Atomic<std::uint32_t> next;  ///< the process at which the next notification begins to search
};
/// Threads of one process that wait, of which a process may have several groups.
struct WaitingProcess {
  Atomic<std::uint64_t> threads;  ///< Condition::Threads
  Atomic<std::uint32_t> wakes;    ///< changes after each notification; its threads sleep on it
  std::uint32_t padding;
};

/// Its shares have count 1: the process takes part.
struct BarrierWords {
  static constexpr Kind kKind = Kind::barrier;

  Header header;
  Atomic<std::uint32_t> parties;  ///< constant
  Atomic<std::uint32_t> waiters;  ///< WaitFlag
  Atomic<std::uint64_t> state;    ///< Barrier::State
  Atomic<std::int32_t> dead_pid;  ///< of the process that broke it by its death; 0: none did
  Atomic<std::uint32_t> used;     ///< no share from this one on was ever used
};
static_assert(sizeof(BarrierWords) <= 64);

/// Where the words of processes begin.
inline constexpr std::size_t kProcesses = 64;

/// The words of processes in a block.
template <typename Word>
[[nodiscard]] std::span<Word> processes_in(std::span<std::byte> block) noexcept {
  if (block.size() <= kProcesses) return {};
  return {reinterpret_cast<Word*>(block.data() + kProcesses),
          (block.size() - kProcesses) / sizeof(Word)};
}
/// The bytes of a block with words for so many processes, at most for all of the session.
template <typename Word>
[[nodiscard]] constexpr std::size_t bytes_for(std::uint64_t processes) noexcept {
  return kProcesses + std::min<std::uint64_t>(processes, kMaxSlots) * sizeof(Word);
}

/// Of the block of every primitive: it has no tickets, and the manager repairs it.
inline constexpr TicketContents kContents{.kind = TicketContents::Kind::primitive};

/// The words of a primitive; null if the block has none of that kind.
template <typename Words>
[[nodiscard]] Words* words_in(std::span<std::byte> block) noexcept {
  if (block.size() < kProcesses ||
      reinterpret_cast<std::uintptr_t>(block.data()) % kProcesses != 0) {
    return nullptr;
  }
  auto* const words = reinterpret_cast<Words*>(block.data());
  const bool found =
      words->header.magic.load() == kMagic && words->header.kind.load() == Words::kKind;
  return found ? words : nullptr;
}

/// The same; throws SessionError instead.
template <typename Words>
[[nodiscard]] Words& words_of(std::span<std::byte> block) {
  Words* const words = words_in<Words>(block);
  if (words == nullptr) throw SessionError("a block has no such primitive of this version");
  return *words;
}

/// Makes a primitive in the memory of a new block, which has the bytes of an earlier one. `set`
/// stores what is constant.
template <typename Words, typename Set>
void create(std::span<std::byte> block, Set&& set) {
  std::memset(block.data(), 0, block.size());
  auto& words = *reinterpret_cast<Words*>(block.data());
  set(words);
  words.header.kind.store(Words::kKind);
  words.header.magic.store(kMagic);
}

}  // namespace shmtensor::sync
