// Owners of a semaphore's units, which are killed, while the manager sweeps.
#include <algorithm>
#include <utility>

#include "simulation/programs/primitive_world.hpp"
#include "sync/semaphore.hpp"

namespace shmtensor::simulation {
namespace {

using sync::Taken;

/// The living have no more units than there are; the units of the killed come back. No process
/// sleeps beside a unit.
class SemaphoreProgram final : public PrimitiveWorld {
 public:
  enum class Act : std::uint8_t {
    acquire,
    try_within,  ///< the same for some time; without success, the process ends
    release,
    give,  ///< another process releases what this one has acquired
    release_given,
    signal,  ///< it releases a unit that none has acquired
    disown,  ///< all that it has; another process releases it
  };
  using enum Act;
  struct Roles {
    std::uint32_t units = 1;
    std::vector<std::vector<Act>> acts;  ///< of each process
    bool bounded = false;
    std::vector<std::uint32_t> own = {};  ///< how many a process has already
  };

  explicit SemaphoreProgram(Roles roles)
      : PrimitiveWorld(static_cast<std::uint32_t>(roles.acts.size())), roles_(std::move(roles)) {}

 private:
  /// What a process has of the semaphore.
  struct Has {
    std::uint32_t units = 0;
    std::uint32_t given = 0;    ///< which no process has released
    std::uint32_t unknown = 0;  ///< that a call may have taken from the value, if it was killed
    bool acquires = false;
  };

  void build_primitives() override {
    semaphores_ = make<sync::Semaphore>(
        sync::Semaphore::bytes(roles_.units), [&](std::span<std::byte> block) {
          sync::Semaphore::create(block, roles_.units, roles_.bounded);
        });
    has_.resize(roles_.acts.size());
    for (std::uint32_t i = 0; i < roles_.own.size(); ++i) {
      while (has_[i].units != roles_.own[i]) {
        static_cast<void>(semaphores_[i].acquire(slot_of(i), sync::kSlice));
        ++has_[i].units;
      }
    }
  }

  void act(std::uint32_t process) override {
    for (const Act act : roles_.acts[process]) {
      if (!carry_out(process, act)) return;
    }
  }
  bool carry_out(std::uint32_t process, Act act) {
    sync::Semaphore& semaphore = semaphores_[process];
    const SlotNumber slot = slot_of(process);
    Has& mine = has_[process];
    switch (act) {
      case acquire:
      case try_within:
        mine.acquires = true;
        if (!take_unit(process, act == try_within)) {
          mine.acquires = false;
          return false;
        }
        mine.acquires = false;
        ++mine.units;
        run_->expect(living_have() <= roles_.units + signalled_ + taken_, "units are had twice");
        if (roles_.units == 1 && !roles_.bounded) data_.use(*run_);
        return true;
      case release:
        --mine.units;
        give_back(process);
        return true;
      case give:
        --mine.units;
        ++mine.given;
        return true;
      case release_given: {
        const auto giver = [this] { return std::ranges::find_if(has_, &Has::given); };
        run_->wait_until([&] { return giver() != has_.end(); });
        const auto from = giver();
        --from->given;
        mine.unknown = 1;
        give_back(process);
        mine.unknown = 0;
        if (run_->is_dead(static_cast<std::uint32_t>(from - has_.begin())) &&
            others_have(process)) {
          ++taken_;
        }
        return true;
      }
      case signal:
        ++signalled_;
        mine.unknown = 1;
        give_back(process);
        mine.unknown = 0;
        return true;
      case disown:
        mine.unknown = std::exchange(mine.units, 0);
        mine.given = mine.unknown;
        while (semaphore.disown(slot, sync::kSlice) == Taken::locked) {
        }
        mine.unknown = 0;
        return true;
    }
    return false;
  }

  // As the bindings.
  bool take_unit(std::uint32_t process, bool for_some_time) {
    sync::Semaphore& semaphore = semaphores_[process];
    const SlotNumber slot = slot_of(process);
    const TimeLimit limit(for_some_time);
    Taken taken = semaphore.acquire(slot, std::chrono::nanoseconds::zero());
    while (taken == Taken::locked) taken = semaphore.acquire(slot, sync::kSlice);
    while (taken != Taken::done) {
      if (limit.is_over()) {
        semaphore.pass_wakeup_on();
        return false;
      }
      semaphore.wait(sync::kSlice);
      taken = semaphore.acquire(slot, sync::kSlice);
    }
    return true;
  }
  void give_back(std::uint32_t process) {
    Taken result = Taken::locked;
    while (result == Taken::locked) {
      result = semaphores_[process].release(slot_of(process), 1, sync::kSlice);
    }
    run_->expect(result == Taken::done, "a unit cannot be released");
  }

  [[nodiscard]] std::uint32_t living_have() const {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < has_.size(); ++i) {
      if (!run_->is_dead(i)) sum += has_[i].units + has_[i].given;
    }
    return sum;
  }

  [[nodiscard]] bool others_have(std::uint32_t process) const {
    for (std::uint32_t i = 0; i < has_.size(); ++i) {
      if (i != process && !run_->is_dead(i) && (has_[i].units != 0 || has_[i].acquires))
        return true;
    }
    return false;
  }

  // A call in which a process was killed may have had its effect. Signals do not come back.
  void check_for(Run& run, std::uint32_t living) override {
    std::uint32_t unknown = 0;
    std::uint32_t expected = roles_.units + signalled_ - living_have();
    for (std::uint32_t i = 0; i < has_.size(); ++i) {
      if (!run.is_dead(i)) continue;
      unknown += has_[i].unknown;
      if (roles_.units != 0) continue;
      unknown += has_[i].acquires ? 1u : 0u;
      expected -= has_[i].units;
    }
    sync::Semaphore& semaphore = semaphores_[living];
    const std::uint32_t value = semaphore.value();
    if (value > expected + taken_ + unknown) return run.fail("a unit is there twice");
    if (value + unknown < expected) return run.fail("a unit is lost");
    for (std::uint32_t i = 0; i < has_.size(); ++i) {
      if (!run.is_dead(i) && has_[i].acquires && value != 0) {
        return run.fail("a process sleeps beside a unit");
      }
    }
    for (std::uint32_t i = 0; i < value; ++i) {
      if (semaphore.acquire(slot_of(living), std::chrono::nanoseconds::zero()) != Taken::done) {
        return run.fail("a unit cannot be acquired");
      }
    }
  }

  const Roles roles_;
  std::vector<sync::Semaphore> semaphores_;  // of each process
  std::vector<Has> has_;
  std::uint32_t signalled_ = 0;
  /// Released for a process whose units the manager had returned: the semaphore may have taken them
  /// from another one.
  std::uint32_t taken_ = 0;
  Guarded data_;
};

using enum SemaphoreProgram::Act;

const Register<SemaphoreProgram> semaphore_programs[] = {
    {"semaphore/two processes", {.acts = {{acquire, release, acquire}, {acquire, release}}}},
    {"semaphore/two units",
     {.units = 2, .acts = {{acquire}, {acquire, release}, {acquire, release}}}},
    // Two are woken. The first one may find the lock taken until its time is over.
    {"semaphore/for some time",
     {.units = 2,
      .acts = {{try_within}, {acquire}, {acquire}, {release, release}},
      .own = {0, 0, 0, 2}}},
    // One releases what the first acquires, and a third one uses the same share.
    {"semaphore/bounded/given",
     {.acts = {{acquire, give, acquire}, {release_given}, {acquire}}, .bounded = true}},
    {"semaphore/signals", {.units = 0, .acts = {{signal, signal}, {acquire}, {acquire}}}},
    {"semaphore/disowned",
     {.units = 2, .acts = {{acquire}, {release}, {disown}}, .own = {0, 1, 1}}},
};

}  // namespace
}  // namespace shmtensor::simulation
