// Puts the memory of the simulated processes back to what it was when a program had been built, so
// that each run begins alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "simulation/places.hpp"

namespace shmtensor::simulation {

/// The heap and the mappings of the simulated processes. Once a run has touched a page, the page is
/// put back after each run.
/// Threads: one. There is one object.
class Snapshot {
 public:
  static Snapshot& get();

  /// Whose memory `new` takes, while this object exists.
  enum class Heap : std::uint8_t {
    own,        ///< of the simulation
    simulated,  ///< of the simulated processes; `delete` does nothing there
  };
  class UseHeap {
   public:
    explicit UseHeap(Heap heap) noexcept;
    ~UseHeap();
    UseHeap(const UseHeap&) = delete;
    UseHeap& operator=(const UseHeap&) = delete;

   private:
    Heap outer_;
  };
  /// Switches, for a fiber that is entered or left, and returns what was before.
  static Heap use(Heap heap) noexcept;

  /// Begins to watch all pages. From here on no mapping is closed, and no descriptor that is open
  /// now; `restore` closes those that are new.
  void take();
  void restore();

  void note_mapped(void* data, std::size_t size);
  /// Returns false if the mapping must stay.
  bool note_unmapped(void* data, std::size_t size);
  [[nodiscard]] bool keeps_descriptor(int file) const noexcept {
    return taken_ && file <= last_descriptor_;
  }

  /// For the handler of SIGSEGV: returns false if the page is not watched.
  bool touch(void* address) noexcept;
  /// For the operators `new` and `delete`.
  void* allocate(std::size_t size, std::size_t alignment);
  void release(void* data) noexcept;

 private:
  struct Page {
    std::byte* at;
    std::byte* copy;
  };
  using Ranges = std::map<std::byte*, std::byte*>;  // begin, end

  Snapshot();

  bool taken_ = false;
  Heap in_use_ = Heap::own;
  std::byte* heap_ = nullptr;
  std::size_t used_ = 0;
  std::size_t used_at_snapshot_ = 0;
  int last_descriptor_ = -1;  // of those that are kept
  Ranges mapped_;
  Ranges watched_;
  std::vector<std::pair<void*, std::size_t>> new_;  // mapped since
  std::vector<Page> pages_;
  std::unordered_set<Place> known_;  // the pages' places: a file's page may be mapped several times
  std::byte* copies_ = nullptr;
  std::size_t copied_ = 0;
};

}  // namespace shmtensor::simulation
