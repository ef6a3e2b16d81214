// Parties of a barrier, which are killed, while the manager sweeps.
#include <algorithm>
#include <map>
#include <set>

#include "simulation/programs/primitive_world.hpp"
#include "sync/barrier.hpp"

namespace shmtensor::simulation {
namespace {

using sync::Barrier;

/// A round ends alike for all: after all parties have arrived, or broken. A party that is killed
/// breaks it.
class BarrierProgram final : public PrimitiveWorld {
 public:
  struct Roles {
    std::uint32_t parties = 2;
    std::uint32_t rounds = 1;
    std::uint32_t processes = 2;  ///< that arrive in each round
    bool impatient = false;       ///< the first one waits for some time, then breaks the round
    bool resets = false;          ///< another process resets it
    bool leaves = false;          ///< the last one disowns the barrier after its rounds
  };

  explicit BarrierProgram(Roles roles)
      : PrimitiveWorld(roles.processes + (roles.resets ? 1u : 0u)),
        roles_(roles),
        stages_(roles.processes) {}

 private:
  enum class Stage : std::uint8_t {
    outside,
    arriving,  ///< it may take part
    waiting,
    between,  ///< rounds
    left,
  };
  /// What is known of a round.
  struct Known {
    std::set<std::uint32_t> arrived;  ///< indices of those that know theirs
    std::optional<bool> done;         ///< else broken
  };

  void build_primitives() override {
    barriers_ = make<Barrier>(Barrier::bytes(), [&](std::span<std::byte> block) {
      Barrier::create(block, roles_.parties);
    });
  }

  void act(std::uint32_t process) override {
    if (process == roles_.processes) {
      barriers_[process].reset();
      return;
    }
    for (std::uint32_t i = 0; i < roles_.rounds; ++i) {
      if (!take_part(process)) broke_ = true;
    }
    if (roles_.leaves && process == roles_.processes - 1) {
      stages_[process] = Stage::left;
      barriers_[process].disown(slot_of(process));
    }
  }

  // As the bindings. Returns true if the round has ended, false if it is broken.
  bool take_part(std::uint32_t process) {
    Barrier& barrier = barriers_[process];
    const TimeLimit limit(roles_.impatient && process == 0);
    if (stages_[process] == Stage::outside) stages_[process] = Stage::arriving;
    std::optional<Barrier::Arrival> arrival;
    while ((arrival = barrier.arrive(slot_of(process))) && arrival->is_full) {
      wait_for_end(process, arrival->round, limit);
    }
    stages_[process] = Stage::between;
    if (!arrival) {
      run_->expect(may_be_broken(), "a barrier is broken that no process breaks");
      return false;
    }
    Known& round = rounds_[arrival->round];
    run_->expect(round.arrived.insert(arrival->index).second, "two have the same place");
    run_->expect(arrival->is_last == (arrival->index + 1 == roles_.parties), "the last is another");
    stages_[process] = Stage::waiting;
    bool gives_up = false;
    if (arrival->is_last) {
      barrier.release(arrival->round);
    } else {
      gives_up = wait_for_end(process, arrival->round, limit);
    }
    const auto state = barrier.state_of(arrival->round);
    run_->expect(state != Barrier::Round::open, "a round is open after its end");
    stages_[process] = Stage::between;
    const bool done = state == Barrier::Round::done;
    if (gives_up) broke_ = !done;  // a round that had ended stays so
    run_->expect(round.done.value_or(done) == done, "a round ends in two ways");
    run_->expect(!done || round.arrived.size() + dead() >= roles_.parties,
                 "a round ends before all have arrived");
    run_->expect(done || may_be_broken(), "a round is broken that no process breaks");
    run_->expect(done || !arrival->is_last || roles_.resets || dead() != 0,
                 "a full round is broken");
    round.done = done;
    return done;
  }

  // Returns true if it tries to break the round, since the time is over.
  bool wait_for_end(std::uint32_t process, std::uint32_t round, const TimeLimit& limit) {
    Barrier& barrier = barriers_[process];
    bool gives_up = false;
    while (barrier.state_of(round) == Barrier::Round::open) {
      if (!gives_up && limit.is_over()) {
        gives_up = broke_ = true;
        barrier.break_round(round, true);
      } else {
        barrier.wait(round, sync::kSlice);
      }
    }
    return gives_up;
  }

  [[nodiscard]] bool may_be_broken() const { return broke_ || roles_.resets || dead() != 0; }
  [[nodiscard]] std::uint32_t dead() const {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < roles_.processes; ++i) count += is_dead(i) ? 1u : 0u;
    return count;
  }

  [[nodiscard]] bool names_dead(std::int32_t pid) const {
    for (std::uint32_t i = 0; i < roles_.processes; ++i) {
      if (is_dead(i) && pid_of(i) == pid) return true;
    }
    return false;
  }

  void check_for(Run& run, std::uint32_t living) override {
    Barrier& barrier = barriers_[living];
    // Of those that died, or of those that sleep.
    const auto count = [&](Stage stage, bool dead) {
      std::uint32_t sum = 0;
      for (std::uint32_t i = 0; i < roles_.processes; ++i) {
        if (stages_[i] == stage && (dead ? run.is_dead(i) : !run.has_ended(i))) ++sum;
      }
      return sum;
    };
    const bool party_died = count(Stage::waiting, true) + count(Stage::between, true) != 0;
    const bool waits = count(Stage::waiting, false) + count(Stage::between, false) != 0;
    if (waits && party_died && !roles_.resets) {
      return run.fail("a process waits for one that was killed");
    }
    if (waits && barrier.is_broken()) return run.fail("a process waits at a broken barrier");
    if (party_died && !roles_.resets && !barrier.is_broken()) {
      return run.fail("a party was killed and the barrier is whole");
    }
    if (party_died && !roles_.resets && !names_dead(barrier.dead_pid())) {
      return run.fail("the barrier does not name the process that was killed");
    }
    if (dead() == 0 && waits && !roles_.resets) {
      return run.fail("a process waits although all came");
    }
    if (barrier.waiting() != count(Stage::waiting, false)) {
      run.fail("a process is counted that does not wait");
    }
  }

  const Roles roles_;
  std::vector<Barrier> barriers_;  // of each process
  std::vector<Stage> stages_;
  std::map<std::uint32_t, Known> rounds_;
  bool broke_ = false;
};

const Register<BarrierProgram> barrier_programs[] = {
    {"barrier/two parties", {.rounds = 2}},
    {"barrier/three parties", {.parties = 3, .processes = 3}},
    {"barrier/more processes", {.processes = 4}},
    {"barrier/more processes/for some time", {.processes = 4, .impatient = true}},
    {"barrier/for some time", {.rounds = 2, .impatient = true}},
    {"barrier/reset", {.rounds = 2, .resets = true}},
    {"barrier/disowned", {.rounds = 2, .leaves = true}},
};

}  // namespace
}  // namespace shmtensor::simulation
