// The manager of a simulated session: what it does to shared memory is the product's code, the
// sockets are not.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arena/session_memory.hpp"
#include "manager/arena_registry.hpp"
#include "manager/connection.hpp"
#include "manager/watched_queues.hpp"
#include "simulation/run.hpp"

namespace shmtensor::simulation {

/// It may be killed once; then another one takes over, which processes do not notice: they find its
/// words in shared memory unchanged. There is one object at a time.
class Manager {
 public:
  Manager();
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  static Manager& get() noexcept { return *manager_; }

  /// For each arena, once it is registered and has a block: opens it for the next manager, too, and
  /// lets it have few blocks, so that a sweep has few steps. An allocator gives every eighth number
  /// first.
  void prepare(const Segment& segment);

  [[nodiscard]] SessionMemory& memory() noexcept { return *memory_; }
  [[nodiscard]] ArenaRegistry& arenas() noexcept { return arenas_; }

  /// Adds the manager to a run, after all other processes. Process n has slot `slots[n]`.
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
  void raise_hung_up();
  void take_over(Run& run);
  void reclaim(ProcessNumber dead);
  void carry_out(const Message& notice);

  static Manager* manager_;

  std::unique_ptr<SessionMemory> memory_;
  ArenaRegistry arenas_;
  WatchedQueues queues_;
  std::vector<std::unique_ptr<Segment>> of_next_;
  SlotNumber next_slot_ = 0;
  std::span<const SlotNumber> slots_;
  std::deque<Message> notices_;
  std::deque<Request*> requests_;
};

}  // namespace shmtensor::simulation
