// Processes of a session that use locks and other primitives, and the manager that repairs them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arena/arena.hpp"
#include "os/plain_clock.hpp"
#include "simulation/manager.hpp"
#include "simulation/program.hpp"
#include "support/world.hpp"
#include "sync/layout.hpp"
#include "sync/waiting.hpp"

namespace shmtensor::simulation {

/// How long a call may take, as `Patience` in the bindings.
class TimeLimit {
 public:
  explicit TimeLimit(bool ends) noexcept : ends_(ends) {}
  [[nodiscard]] bool is_over() const noexcept { return ends_ && monotonic_nanoseconds() >= end_; }

 private:
  // A sleep that ends by its timeout takes a slice, any other step 100 ns.
  static constexpr std::uint64_t kLimit = std::uint64_t{sync::kSlice.count()} / 2;

  bool ends_;
  std::uint64_t end_ = monotonic_nanoseconds() + kLimit;
};

/// What each process has in common. A process stays alive after its threads have ended.
class PrimitiveWorld : public Program {
 public:
  /// `threads` of each process; number n is of process n / threads.
  explicit PrimitiveWorld(std::uint32_t processes, std::uint32_t threads = 1)
      : processes_(processes), threads_(threads) {}

  void build() override {
    for (std::uint32_t i = 0; i < processes_; ++i) {
      slots_.push_back(static_cast<SlotNumber>(i));
      peers_.push_back(std::make_unique<testing::Peer>(manager_.memory(), slots_[i]));
      arenas_.push_back(i == 0 ? peers_[0]->make_arena()
                               : peers_[i]->open_arena(arenas_[0]->segment()));
      static_cast<void>(peers_[i]->member().writer());
      SlotRecord& record = manager_.memory().slot(slots_[i]);
      record.incarnation.store(1);
      record.pid.store(pid_of(i));
      record.status.store(SlotStatus::active);
    }
    const Segment& segment = arenas_[0]->segment();
    manager_.arenas().add(
        Segment::open(manager_.memory().id(), segment.number(), (*segment.file()).duplicate()),
        true, manager_.memory(), {});
    build_primitives();
    manager_.prepare(segment);
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < processes_; ++i) {
      run.add_process("process " + std::to_string(i), true);
    }
    for (std::uint32_t i = 0; i < processes_ * threads_; ++i) {
      run.add_thread(process_of(i), [this, i] { act(i); });
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    if (const auto living = any_living()) return check_for(run, *living);
    if (testing::used_blocks(arenas_[0]->segment()) != 0) run.fail("a block is left");
  }

 protected:
  virtual void build_primitives() = 0;
  virtual void act(std::uint32_t thread) = 0;
  /// Checks what is left after a run, as a process that lives finds it.
  virtual void check_for(Run& run, std::uint32_t living) = 0;

  /// Makes a primitive that all processes have open. Returns the object of each.
  template <typename Core, typename Create>
  [[nodiscard]] std::vector<Core> make(std::size_t bytes, Create&& create) {
    const BlockNumber block = *arenas_[0]->allocate(std::max(bytes, sync::kProcesses));
    create(arenas_[0]->bytes(block, Access::read_write));
    arenas_[0]->set_contents(block, sync::kContents);
    std::vector<Core> cores;
    for (std::uint32_t i = 0; i < processes_; ++i) {
      if (i != 0 && !testing::receive(*arenas_[i], testing::send(*arenas_[0], block))) {
        throw Error("the primitive is gone");
      }
      cores.emplace_back(arenas_[i]->bytes(block, Access::read_write));
    }
    return cores;
  }

  [[nodiscard]] std::uint32_t process_of(std::uint32_t thread) const { return thread / threads_; }
  [[nodiscard]] SlotNumber slot_of(std::uint32_t thread) const {
    return slots_[process_of(thread)];
  }
  [[nodiscard]] static std::int32_t pid_of(std::uint32_t process) {
    return static_cast<std::int32_t>(process) + 100;
  }
  [[nodiscard]] std::uint32_t all_threads() const { return processes_ * threads_; }
  [[nodiscard]] bool is_dead(std::uint32_t thread) const {
    return run_->is_dead(process_of(thread));
  }
  [[nodiscard]] std::optional<std::uint32_t> any_living() const {
    for (std::uint32_t i = 0; i < processes_; ++i) {
      if (!run_->is_dead(i)) return i;
    }
    return std::nullopt;
  }

  Run* run_ = nullptr;

 private:
  const std::uint32_t processes_;
  const std::uint32_t threads_;
  Manager manager_;
  std::vector<SlotNumber> slots_;
  std::vector<std::unique_ptr<testing::Peer>> peers_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

/// Data that a process changes while no other one may. Each finds what the one before has written.
class Guarded {
 public:
  void use(Run& run) {
    run.expect(number_.load(std::memory_order_relaxed) == written_,
               "a process does not find what the one before has written");
    number_.store(written_ + 1, std::memory_order_relaxed);
    ++written_;
  }

 private:
  Atomic<std::uint32_t> number_;
  std::uint32_t written_ = 0;
};

}  // namespace shmtensor::simulation
