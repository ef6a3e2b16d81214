// Threads that wait for an event or a condition, and are killed, while the manager sweeps.
#include <algorithm>

#include "simulation/programs/primitive_world.hpp"
#include "sync/condition.hpp"
#include "sync/event.hpp"
#include "sync/lock.hpp"

namespace shmtensor::simulation {
namespace {

/// A process that began to wait before the event was set goes on, also if it is clear again.
class EventProgram final : public PrimitiveWorld {
 public:
  struct Roles {
    std::uint32_t waiters = 2;
    std::uint32_t setters = 1;
    bool clears = false;  ///< each, after it has set the event
  };

  explicit EventProgram(Roles roles)
      : PrimitiveWorld(roles.waiters + roles.setters), roles_(roles), since_(roles.waiters) {}

 private:
  void build_primitives() override { events_ = make<sync::Event>(0, &sync::Event::create); }

  void act(std::uint32_t process) override {
    sync::Event& event = events_[process];
    if (process < roles_.waiters) {
      const std::uint32_t since = event.changes();
      since_[process] = since;
      while (!event.has_happened(since)) event.wait(since, sync::kSlice);
      run_->expect(was_set_, "a process goes on although the event was not set");
      return;
    }
    was_set_ = true;
    event.set();
    if (roles_.clears) event.clear();
  }

  void check_for(Run& run, std::uint32_t living) override {
    sync::Event& event = events_[living];
    for (std::uint32_t i = 0; i < roles_.waiters; ++i) {
      if (!run.has_ended(i) && event.changes() != *since_[i]) {
        return run.fail("a process sleeps although the event was set");
      }
    }
    bool all_done = true;
    for (std::uint32_t i = roles_.waiters; i < roles_.waiters + roles_.setters; ++i) {
      all_done = all_done && run.has_ended(i) && !run.is_dead(i);
    }
    if (all_done && event.is_set() == roles_.clears) run.fail("the event has the wrong state");
  }

  const Roles roles_;
  std::vector<sync::Event> events_;  // of each process
  std::vector<std::optional<std::uint32_t>> since_;
  bool was_set_ = false;
};

/// As many threads that wait go on as were notified. A notification of one that is killed goes to
/// another.
class ConditionProgram final : public PrimitiveWorld {
 public:
  struct Roles {
    std::uint32_t waiters = 2;    ///< processes
    std::uint32_t threads = 1;    ///< of each process
    std::uint32_t impatient = 0;  ///< so many of the first threads wait for some time only
    std::uint32_t first = 1;      ///< so many the first notifier notifies
    std::uint32_t second = 0;     ///< the second one; 0: there is none
  };

  explicit ConditionProgram(Roles roles)
      : PrimitiveWorld(roles.waiters + (roles.second != 0 ? 2u : 1u), roles.threads),
        roles_(roles),
        stages_(all_threads(), Stage::outside) {}

 private:
  enum class Stage : std::uint8_t { outside, waiting, leaving, left };

  void build_primitives() override {
    // The manager sweeps the lock first, as that of a Python object, which is made first.
    locks_ =
        make<sync::Lock>(0, [](std::span<std::byte> block) { sync::Lock::create(block, false); });
    conditions_ = make<sync::Condition>(sync::Condition::bytes(), &sync::Condition::create);
  }

  void act(std::uint32_t thread) override {
    const std::uint32_t process = process_of(thread);
    if (process < roles_.waiters) return wait(thread);
    if (thread % roles_.threads == 0) notify(process);
  }

  // As the bindings.
  void wait(std::uint32_t thread) {
    sync::Condition& condition = conditions_[process_of(thread)];
    lock(thread);
    const std::size_t place = condition.enter(slot_of(thread));
    const std::uint32_t before = granted_;
    // One that came later may sleep, although one that was notified before it is killed later.
    stages_[thread] = granted_ == 0 ? Stage::waiting : Stage::outside;
    const TimeLimit limit(thread < roles_.impatient);
    for (;;) {
      unlock(thread);
      while (!limit.is_over() && !condition.is_notified(place)) {
        condition.sleep(place, sync::kSlice);
      }
      lock(thread);
      if (condition.is_notified(place) || limit.is_over()) break;
    }
    stages_[thread] = Stage::leaving;
    const bool notified = condition.leave(place);
    stages_[thread] = Stage::left;
    run_->expect(notified || thread < roles_.impatient, "a thread goes on without a notification");
    if (notified) {
      ++went_on_;
      run_->expect(granted_ + pending_ + dead_waiters() > before,
                   "a thread takes a notification from before it waited");
    }
    // Two may get one of a process that was killed: docs/design/locks.md.
    run_->expect(went_on_ <= granted_ + pending_ + dead_waiters(),
                 "more threads go on than were notified");
    // The binding raises an error then, so another one gets the notification.
    if (locks_[process_of(thread)].take_death() && notified) give(process_of(thread), 1);
    unlock(thread);
  }
  void give(std::uint32_t process, std::uint32_t count) {
    pending_ += count;
    granted_ += conditions_[process].notify(count);
    pending_ -= count;
  }
  void notify(std::uint32_t process) {
    const std::uint32_t thread = process * roles_.threads;
    const bool is_first = process == roles_.waiters;
    if (is_first) run_->wait_until([this] { return all_wait(); });
    lock(thread);
    give(process, is_first ? roles_.first : roles_.second);
    unlock(thread);
  }

  void lock(std::uint32_t thread) {
    sync::Lock& own = locks_[process_of(thread)];
    if (own.try_lock(slot_of(thread))) return;
    while (!own.lock_within(slot_of(thread), sync::kSlice)) {
    }
  }
  void unlock(std::uint32_t thread) { static_cast<void>(locks_[process_of(thread)].unlock()); }

  [[nodiscard]] bool all_wait() const {
    for (std::uint32_t i = 0; i < roles_.waiters * roles_.threads; ++i) {
      if (stages_[i] == Stage::outside && !is_dead(i)) return false;
    }
    return true;
  }

  [[nodiscard]] std::uint32_t dead_waiters() const {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < roles_.waiters * roles_.threads; ++i)
      count += is_dead(i) ? 1u : 0u;
    return count;
  }

  // One that was killed while it left, with the lock, may have had its notification.
  void check_for(Run& run, std::uint32_t living) override {
    std::uint32_t sleeping = 0;
    std::uint32_t gone = went_on_;
    for (std::uint32_t i = 0; i < all_threads(); ++i) {
      if (stages_[i] == Stage::leaving && is_dead(i)) ++gone;
      if (stages_[i] == Stage::waiting && !is_dead(i)) ++sleeping;
      if (stages_[i] == Stage::leaving && !is_dead(i)) return run.fail("a thread does not leave");
    }
    if (sleeping != 0 && granted_ > gone) return run.fail("a notification is lost");
    for (std::uint32_t i = roles_.waiters; i < all_threads() / roles_.threads; ++i) {
      if (!run.has_ended(i) && all_wait()) return run.fail("a notifier sleeps");
    }
    if (!locks_[living].try_lock(slot_of(living * roles_.threads))) {
      return run.fail("the lock cannot be acquired");
    }
    if (conditions_[living].notify(all_threads()) < sleeping) {
      run.fail("a thread that waits cannot be notified");
    }
  }

  const Roles roles_;
  std::vector<sync::Condition> conditions_;  // of each process
  std::vector<sync::Lock> locks_;            // of each process
  std::vector<Stage> stages_;                // of each thread
  std::uint32_t granted_ = 0;                // notifications
  std::uint32_t pending_ = 0;  // which a notifier is giving, or gave when it was killed
  std::uint32_t went_on_ = 0;  // threads with a notification
};

const Register<EventProgram> event_programs[] = {
    {"event/set", {}},
    {"event/set and cleared", {.clears = true}},
    {"event/two setters", {.setters = 2, .clears = true}},
};
const Register<ConditionProgram> condition_programs[] = {
    {"condition/one of two", {}},
    {"condition/two of three", {.waiters = 3, .first = 2}},
    {"condition/two notifiers", {.waiters = 3, .second = 1}},
    {"condition/for some time", {.impatient = 1, .second = 1}},
    {"condition/threads", {.threads = 2, .impatient = 1, .first = 2}},
    {"condition/late threads", {.waiters = 1, .threads = 2, .second = 1}},
};

}  // namespace
}  // namespace shmtensor::simulation
