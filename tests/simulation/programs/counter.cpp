// A program that is wrong, which shows that the simulation finds, repeats and shrinks failures.
#include <memory>

#include "base/atomic.hpp"
#include "simulation/program.hpp"

namespace shmtensor::simulation {
namespace {

class Adders final : public Program {
  void build() override { word_ = std::make_unique<Atomic<std::uint32_t>>(); }
  void start(Run& run) override {
    for (int i = 0; i < 2; ++i) {
      run.add_thread(run.add_process("adder", true), [this] {
        word_->store(word_->load() + 1);  // wrong: two steps
      });
    }
  }
  void check(Run& run) override {
    if (!run.is_dead(0) && !run.is_dead(1) && word_->load() != 2) run.fail("an addition is lost");
  }
  std::unique_ptr<Atomic<std::uint32_t>> word_;
};
const Register<Adders> adders("wrong/counter");

}  // namespace
}  // namespace shmtensor::simulation
