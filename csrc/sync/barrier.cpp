#include "sync/barrier.hpp"

#include <utility>

#include "sync/waiting.hpp"

namespace shmtensor::sync {

/// round:32 | earlier rounds that were broken:15 | broken:1 | arrived:16
struct Barrier::State {
  std::uint32_t round = 0;
  std::uint32_t broken_before = 0;  ///< bit n: round - n - 1
  bool broken = false;
  std::uint32_t arrived = 0;

  static State of(std::uint64_t bits) noexcept {
    return {.round = static_cast<std::uint32_t>(bits >> 32),
            .broken_before = static_cast<std::uint32_t>(bits >> 17) & 0x7fff,
            .broken = (bits >> 16 & 1) != 0,
            .arrived = static_cast<std::uint32_t>(bits) & 0xffff};
  }
  [[nodiscard]] std::uint64_t bits() const noexcept {
    return std::uint64_t{round} << 32 | std::uint64_t{broken_before & 0x7fff} << 17 |
           std::uint64_t{broken} << 16 | arrived;
  }
  [[nodiscard]] State next(bool was_broken) const noexcept {
    return {.round = round + 1, .broken_before = broken_before << 1 | (was_broken ? 1u : 0u)};
  }
};

// `change` gets the state, and returns false if there is nothing to do.
template <typename Change>
void Barrier::change(Change&& change) noexcept {
  std::uint64_t bits = words_.state.load();
  State state;
  do {
    state = State::of(bits);
    if (!change(state)) return;
  } while (!words_.state.compare_exchange_strong(bits, state.bits()));
  WaitFlag(words_.waiters).notify_everyone();
}

// It takes part before it counts as arrived: if it is killed in between, its death breaks the
// round.
std::optional<Barrier::Arrival> Barrier::arrive(SlotNumber slot) noexcept {
  take_part(slot);
  const std::uint32_t parties = words_.parties.load();
  std::uint64_t bits = words_.state.load();
  for (;;) {
    State state = State::of(bits);
    if (state.broken) return std::nullopt;
    const Arrival arrival{.round = state.round,
                          .index = state.arrived,
                          .is_last = state.arrived + 1 == parties,
                          .is_full = state.arrived >= parties};
    ++state.arrived;
    if (arrival.is_full || words_.state.compare_exchange_strong(bits, state.bits())) return arrival;
  }
}

// A round so long ago that nothing is known about it has ended as it should.
Barrier::Round Barrier::state_of(std::uint32_t round) const noexcept {
  const State state = State::of(words_.state.load());
  const std::uint32_t ago = state.round - round;
  if (ago == 0) return state.broken ? Round::broken : Round::open;
  return (state.broken_before >> (ago - 1 < 15 ? ago - 1 : 15) & 1) != 0 ? Round::broken
                                                                         : Round::done;
}

void Barrier::wait(std::uint32_t round, std::chrono::nanoseconds time) noexcept {
  sleep_until(words_.waiters, [&] { return state_of(round) != Round::open; }, time);
}

void Barrier::release(std::uint32_t round) noexcept {
  change([&](State& state) {
    if (state.round != round || state.broken) return false;
    state = state.next(false);
    return true;
  });
}

void Barrier::break_round(std::optional<std::uint32_t> round, bool unless_full) noexcept {
  change([&](State& state) {
    if (state.broken || state.round != round.value_or(state.round)) return false;
    if (unless_full && state.arrived >= parties()) return false;
    state.broken = true;
    state.arrived = 0;
    return true;
  });
}

void Barrier::reset() noexcept {
  words_.dead_pid.store(0);
  change([](State& state) {
    if (!state.broken && state.arrived == 0) return false;
    state = state.next(true);
    return true;
  });
}

// The number of words in use is never too small for a word that has a share.
void Barrier::take_part(SlotNumber slot) noexcept {
  for (const Word& word : used()) {
    if (word.load() == Share(slot, 1).bits()) return;
  }
  for (std::uint32_t i = 0; i < shares_.size(); ++i) {
    std::uint32_t used = words_.used.load();
    while (used <= i && !words_.used.compare_exchange_weak(used, i + 1)) {
    }
    std::uint64_t free = 0;
    if (shares_[i].compare_exchange_strong(free, Share(slot, 1).bits())) return;
  }
}

void Barrier::disown(SlotNumber slot) noexcept {
  for (Word& word : used()) {
    std::uint64_t own = Share(slot, 1).bits();
    word.compare_exchange_strong(own, 0);
  }
}

std::uint32_t Barrier::waiting() const noexcept { return State::of(words_.state.load()).arrived; }

bool Barrier::is_broken() const noexcept { return State::of(words_.state.load()).broken; }

}  // namespace shmtensor::sync
