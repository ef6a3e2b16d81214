// A few messages in memory that processes and threads share; the first reader receives a letter.
#pragma once

#include <array>
#include <optional>

#include "support/world.hpp"

namespace shmtensor::testing {

/// Places for letters. A place is empty, being written, full, or being read; a process that is
/// killed in between leaves it so, and no process waits for it.
class Mailbox {
 public:
  struct Letter {
    ArenaNumber arena = 0;
    Sent sent;
    std::uint64_t value = 0;  ///< the value in the block's bytes
  };

  /// Returns false if no place is free.
  bool put(const Letter& letter) noexcept {
    for (Place& place : places_) {
      int empty = kEmpty;
      if (!place.state.compare_exchange_strong(empty, kBusy)) continue;
      place.letter = letter;
      place.state.store(kFull);
      return true;
    }
    return false;
  }

  std::optional<Letter> take() noexcept {
    for (Place& place : places_) {
      int full = kFull;
      if (!place.state.compare_exchange_strong(full, kBusy)) continue;
      const Letter letter = place.letter;
      place.state.store(kEmpty);
      return letter;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kEmpty = 0;
  static constexpr int kBusy = 1;
  static constexpr int kFull = 2;

  struct Place {
    std::atomic<int> state;
    Letter letter;
  };
  std::array<Place, 256> places_;
};

}  // namespace shmtensor::testing
