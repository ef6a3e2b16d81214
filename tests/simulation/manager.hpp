// The manager of a simulated session: what it does to shared memory is the product's code, the
// sockets are not.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "arena/session_memory.hpp"
#include "manager/arena_registry.hpp"
#include "manager/connection.hpp"
#include "simulation/run.hpp"

namespace shmtensor::simulation {

/// There is one at a time, and it is never killed.
class Manager {
 public:
  Manager();
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  static Manager& get() noexcept { return *manager_; }

  /// Lets an arena have few blocks, so that a sweep has few steps. An allocator gives every eighth
  /// number first.
  static void keep_small(const Segment& segment) noexcept { segment.header().capacity.store(64); }

  [[nodiscard]] SessionMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] ArenaRegistry& arenas() noexcept { return arenas_; }

  /// Adds the manager to a run, as its last process. Process n has slot `slots[n]`.
  void start(Run& run, std::span<const SlotNumber> slots);

  // --- for processes ---
  [[nodiscard]] Fd connect();
  /// While a program is built, and for a thread of a run, which waits for the manager.
  [[nodiscard]] Reply answer(const Message& request, int descriptor);
  void take(const Message& notice) { notices_.push_back(notice); }

 private:
  struct Request {
    const Message& message;
    int descriptor;
    std::optional<Reply> reply;
  };

  [[nodiscard]] Reply carry_out(const Message& request, int descriptor);
  void serve(Run& run);
  void reclaim(ProcessNumber dead);

  static Manager* manager_;

  std::unique_ptr<SessionMemory> memory_;
  ArenaRegistry arenas_;
  SlotNumber next_slot_ = 0;
  std::span<const SlotNumber> slots_;
  std::deque<Message> notices_;
  std::deque<Request*> requests_;
};

}  // namespace shmtensor::simulation
