// Owners of a lock, which are killed, while the manager sweeps.
#include <set>

#include "simulation/programs/primitive_world.hpp"
#include "sync/lock.hpp"

namespace shmtensor::simulation {
namespace {

/// A living owner excludes all others. The death of an owner is reported to the next one, once,
/// unless that one is killed before it has the report; then its own death is.
class LockProgram final : public PrimitiveWorld {
 public:
  struct Roles {
    std::uint32_t processes = 2;
    std::uint32_t threads = 1;  ///< of each process
    std::uint32_t rounds = 1;
    bool recursive = false;  ///< it is acquired twice
    bool abandons = false;   ///< the first thread ends with it
  };

  explicit LockProgram(Roles roles)
      : PrimitiveWorld(roles.processes, roles.threads),
        roles_(roles),
        stages_(all_threads(), Stage::outside) {}

 private:
  enum class Stage : std::uint8_t { outside, acquiring, inside, releasing, abandoned };

  void build_primitives() override {
    locks_ =
        make<sync::Lock>(0, [](std::span<std::byte> block) { sync::Lock::create(block, false); });
  }

  void act(std::uint32_t thread) override {
    for (std::uint32_t i = 0; i < roles_.rounds; ++i) {
      acquire(thread);
      data_.use(*run_);
      if (roles_.abandons && thread == 0) return end_with_lock(thread);
      release(thread);
    }
  }

  void acquire(std::uint32_t thread) {
    sync::Lock& lock = locks_[process_of(thread)];
    stages_[thread] = Stage::acquiring;
    if (roles_.recursive) {
      run_->expect(!lock.lock_again(slot_of(thread)), "a thread has another one's lock");
    }
    if (!lock.try_lock(slot_of(thread))) {
      while (!lock.lock_within(slot_of(thread), sync::kSlice)) {
      }
    }
    const char* const broken = broken_rule(lock.take_death());
    run_->expect(broken == nullptr, broken);
    stages_[thread] = Stage::inside;
    last_ = thread;
    if (!roles_.recursive) return;
    run_->expect(lock.lock_again(slot_of(thread)) && lock.depth() == 2,
                 "an owner cannot acquire its lock again");
  }
  void release(std::uint32_t thread) {
    sync::Lock& lock = locks_[process_of(thread)];
    if (roles_.recursive) {
      run_->expect(lock.unlock_once(slot_of(thread)) && lock.is_owned_by(slot_of(thread)),
                   "a lock is free although its owner has it once more");
    }
    stages_[thread] = Stage::releasing;
    run_->expect(roles_.recursive ? lock.unlock_once(slot_of(thread)) : lock.unlock(),
                 "an owner cannot release its lock");
    stages_[thread] = Stage::outside;
  }
  // As the bindings, when a thread ends.
  void end_with_lock(std::uint32_t thread) {
    sync::Lock& lock = locks_[process_of(thread)];
    stages_[thread] = Stage::abandoned;
    run_->expect(lock.is_mine(slot_of(thread)), "an owner does not know its lock");
    lock.unlock_for_thread(pid_of(process_of(thread)));
  }

  void check_for(Run& run, std::uint32_t living) override {
    for (std::uint32_t i = 0; i < roles_.processes; ++i) {
      if (!run.has_ended(i)) return run.fail("a process sleeps although the lock is free");
    }
    if (!locks_[living].try_lock(slot_of(living * roles_.threads))) {
      return run.fail("the lock cannot be acquired");
    }
    if (const char* const broken = broken_rule(locks_[living].take_death())) run.fail(broken);
  }

  /// For one that has acquired the lock, with this report. Returns null if all is right.
  const char* broken_rule(const std::optional<sync::Death>& death) {
    for (std::uint32_t i = 0; i < all_threads(); ++i) {
      if (stages_[i] == Stage::inside && !is_dead(i)) return "two threads have the lock";
    }
    const bool owed = last_ && (stages_[*last_] == Stage::abandoned ||
                                (stages_[*last_] == Stage::inside && is_dead(*last_)));
    if (!death) return owed ? "the death of an owner is not reported" : nullptr;
    for (std::uint32_t i = 0; i < all_threads(); ++i) {
      if (pid_of(process_of(i)) != death->pid || reported_.contains(i)) continue;
      // While it acquired the lock, or released it, it may have had it.
      const bool may_have_had = is_dead(i) && stages_[i] != Stage::outside;
      if (owed ? i == *last_ || (may_have_had && stages_[i] == Stage::acquiring) : may_have_had) {
        reported_.insert(i);
        return nullptr;
      }
    }
    return "a death is reported twice, or of a process that did not have the lock";
  }

  const Roles roles_;
  std::vector<sync::Lock> locks_;  // of each process
  std::vector<Stage> stages_;      // of each thread
  std::optional<std::uint32_t> last_;
  std::set<std::uint32_t> reported_;
  Guarded data_;
};

const Register<LockProgram> lock_programs[] = {
    {"lock/two processes", {.rounds = 2}},
    {"lock/three processes", {.processes = 3}},
    {"lock/recursive/threads", {.threads = 2, .rounds = 2, .recursive = true}},
    {"lock/recursive/a thread ends", {.threads = 2, .recursive = true, .abandons = true}},
};

}  // namespace
}  // namespace shmtensor::simulation
