// Looks for a run of a program that fails: in all runs with few deviations, or in random ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/program.hpp"

namespace shmtensor::simulation {

using Deviations = std::vector<Deviation>;

/// Threads: one.
class Search {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Search(Program& program) : program_(program) {}

  struct Failure {
    std::string rule;
    Deviations deviations;
  };

  /// Makes every run with deviations within the program's limits, if the time suffices.
  std::optional<Failure> exhaustive(Clock::time_point end);
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// Makes one random run. Before the first, makes some runs with other seeds to learn which words
  /// are contended; those are always the same, so that a seed determines its run.
  std::optional<Failure> random(std::uint64_t seed);
  std::optional<Failure> repeat(const Deviations& deviations, bool trace);
  /// Removes deviations while the run fails.
  [[nodiscard]] Failure shrink(Failure failure);

  [[nodiscard]] std::uint64_t runs() const noexcept { return runs_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::uint64_t switches() const noexcept { return switches_; }

 private:
  struct Choice {
    Point point;
    std::uint32_t options;
  };
  class Repeat;
  class Random;

  std::optional<Failure> run(Chooser& chooser, const Run::Settings& settings);
  std::optional<Failure> explore(Deviations& deviations, Clock::time_point end);
  [[nodiscard]] bool permits(const Deviations& deviations, Kind kind) const;
  [[nodiscard]] std::optional<Failure> learn();

  Program& program_;
  Run run_;
  std::uint64_t runs_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t switches_ = 0;
  std::uint32_t depth_ = 0;  // of the exhaustive search
  bool complete_ = true;
  bool has_learned_ = false;
};

/// "0:12p1 1:40k1": thread, step of it, a letter for the kind, and the choice.
[[nodiscard]] std::string text_of(const Deviations& deviations);
/// Throws std::invalid_argument.
[[nodiscard]] Deviations parse(std::string_view text);

}  // namespace shmtensor::simulation
