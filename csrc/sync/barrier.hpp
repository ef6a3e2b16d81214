// A barrier that a dead party breaks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "arena/slot_set.hpp"
#include "queue/wait_flag.hpp"
#include "sync/layout.hpp"

namespace shmtensor::sync {

/// A process takes part from the first time that it arrives, until it disowns the barrier. Rounds
/// are counted: who waits, waits for the end of one.
/// Threads, processes: all members may be called simultaneously. A thread may be killed at any
/// instruction.
class Barrier {
 public:
  enum class Round : std::uint8_t { open, done, broken };
  struct Arrival {
    std::uint32_t round = 0;
    std::uint32_t index = 0;  ///< how many came before
    bool is_last = false;     ///< it ends the round with `release`
    bool is_full = false;     ///< the round was full before: to be called again after its end
  };

  /// More processes may take part than one round has parties.
  [[nodiscard]] static std::size_t bytes() noexcept { return bytes_for<Word>(kMaxSlots); }
  static void create(std::span<std::byte> block, std::uint32_t parties) {
    sync::create<BarrierWords>(block, [&](BarrierWords& words) { words.parties.store(parties); });
  }
  /// Throws SessionError if the block has no barrier.
  explicit Barrier(std::span<std::byte> block)
      : words_(words_of<BarrierWords>(block)), shares_(processes_in<Word>(block)) {}

  /// Does not wait. Nothing if the barrier is broken.
  [[nodiscard]] std::optional<Arrival> arrive(SlotNumber slot) noexcept;
  [[nodiscard]] Round state_of(std::uint32_t round) const noexcept;
  /// Waits until the round may have ended.
  void wait(std::uint32_t round, std::chrono::nanoseconds time) noexcept;
  /// Ends the round, if it is not broken.
  void release(std::uint32_t round) noexcept;
  /// Breaks the round, or with nothing given whichever it is. A round that has ended stays so; with
  /// `unless_full`, also one of which all have arrived.
  void break_round(std::optional<std::uint32_t> round = {}, bool unless_full = false) noexcept;
  /// Begins a new round. Those that wait in the present one find it broken.
  void reset() noexcept;
  /// This process ends as it should, and takes no part any more.
  void disown(SlotNumber slot) noexcept;

  [[nodiscard]] std::uint32_t parties() const noexcept { return words_.parties.load(); }
  [[nodiscard]] std::uint32_t waiting() const noexcept;
  [[nodiscard]] bool is_broken() const noexcept;
  /// The process that broke it by its death; 0: none did.
  [[nodiscard]] std::int32_t dead_pid() const noexcept { return words_.dead_pid.load(); }

  /// For the manager. `pid_of(slot)` of a process that took part.
  template <typename PidOf>
  void repair(const SlotSet& dead, PidOf&& pid_of) noexcept {
    for (Word& word : used()) {
      const Share share(word.load());
      if (share.count() == 0 || !dead.has(share.slot())) continue;
      words_.dead_pid.store(pid_of(static_cast<SlotNumber>(share.slot())));
      break_round();
      word.store(0);
    }
    // A process that ended a round may have been killed, also after it had cleared the word.
    WaitFlag(words_.waiters).wake_everyone();
  }

 private:
  using Word = Atomic<std::uint64_t>;  // Share
  struct State;

  template <typename Change>
  void change(Change&& change) noexcept;
  void take_part(SlotNumber slot) noexcept;
  [[nodiscard]] std::span<Word> used() const noexcept {
    return shares_.first(std::min<std::size_t>(words_.used.load(), shares_.size()));
  }

  BarrierWords& words_;
  std::span<Word> shares_;
};

}  // namespace shmtensor::sync
