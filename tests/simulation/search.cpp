#include "simulation/search.hpp"

#include <algorithm>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "simulation/snapshot.hpp"

namespace shmtensor::simulation {
namespace {

constexpr char kLetters[] = {'p', 'k', 's', 'o', 'z', 't'};  // by Kind

}  // namespace

std::vector<NamedProgram>& programs() {
  static std::vector<NamedProgram> all;
  return all;
}

/// Repeats deviations, and lists what else could have been chosen after the last of them.
class Search::Repeat final : public Chooser {
 public:
  explicit Repeat(const Deviations& deviations) : left_(deviations) {}

  std::uint32_t choose(const Point& point, std::uint32_t options) override {
    if (left_.empty()) {
      choices_.push_back({point, options});
      return 0;
    }
    const auto found = std::ranges::find(left_, point, &Deviation::point);
    if (found == left_.end()) return 0;
    const std::uint32_t choice = found->choice < options ? found->choice : 0;
    left_.erase(found);
    return choice;
  }
  [[nodiscard]] const std::vector<Choice>& choices() const noexcept { return choices_; }

 private:
  Deviations left_;
  std::vector<Choice> choices_;
};

/// Chooses by a seed, which also determines how often it deviates.
class Search::Random final : public Chooser {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {
    constexpr std::uint32_t kOneIn[] = {2, 4, 8, 16, 32, 64};
    for (std::uint32_t& rate : one_in_) rate = kOneIn[engine_() % std::size(kOneIn)];
    for (const Kind rare : {Kind::kill, Kind::stop}) one_in_[static_cast<std::size_t>(rare)] *= 8;
    kills_ = static_cast<std::uint32_t>(engine_() % 3);
  }

  std::uint32_t choose(const Point& point, std::uint32_t options) override {
    const Kind kind = point.kind;
    if (kind == Kind::order) return static_cast<std::uint32_t>(engine_() % options);
    if (engine_() % one_in_[static_cast<std::size_t>(kind)] != 0) return 0;
    if (kind == Kind::kill && (kills_ == 0 || kills_-- == 0)) return 0;
    return 1 + static_cast<std::uint32_t>(engine_() % (options - 1));
  }

 private:
  std::mt19937_64 engine_;
  std::uint32_t one_in_[kKinds];
  std::uint32_t kills_;
};

std::optional<Search::Failure> Search::run(Chooser& chooser, const Run::Settings& settings) {
  run_.begin(chooser, settings);
  program_.start(run_);
  run_.go();
  if (!run_.outcome().failure) {
    const Snapshot::UseHeap simulated(Snapshot::Heap::simulated);
    program_.check(run_);
  }
  Snapshot::get().restore();
  ++runs_;
  steps_ += run_.outcome().steps;
  switches_ += run_.outcome().switches;
  if (!run_.outcome().failure) return std::nullopt;
  return Failure{*run_.outcome().failure, run_.outcome().deviations};
}

std::optional<Search::Failure> Search::random(std::uint64_t seed) {
  if (auto failure = learn()) return failure;
  Random chooser(seed);
  return run(chooser, {.learns = false});
}

std::optional<Search::Failure> Search::learn() {
  constexpr std::uint64_t kRuns = 64;
  if (std::exchange(has_learned_, true)) return std::nullopt;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    Random chooser(~seed);
    if (auto failure = run(chooser, {})) return failure;
  }
  return std::nullopt;
}

std::optional<Search::Failure> Search::repeat(const Deviations& deviations, bool trace) {
  Repeat chooser(deviations);
  return run(chooser, {.all_words = true, .trace = trace});
}

// Runs with few deviations come first, so a failure has the fewest. A word that only one thread has
// used so far is not contended, so a search may have passed choices over; what it has learned is
// used by the next one.
std::optional<Search::Failure> Search::exhaustive(Clock::time_point end) {
  for (depth_ = 1; complete_ && depth_ <= program_.limits().all; ++depth_) {
    std::size_t known = 0;
    do {
      known = run_.contended();
      Deviations deviations;
      if (auto failure = explore(deviations, end)) return failure;
    } while (complete_ && known != run_.contended());
  }
  return std::nullopt;
}

bool Search::permits(const Deviations& deviations, Kind kind) const {
  const Program::Limits limits = program_.limits();
  const auto used = std::ranges::count(
      deviations, kind, [](const Deviation& deviation) { return deviation.point.kind; });
  return deviations.size() < depth_ &&
         static_cast<std::uint32_t>(used) < limits.of_kind[static_cast<std::size_t>(kind)];
}

std::optional<Search::Failure> Search::explore(Deviations& deviations, Clock::time_point end) {
  Repeat chooser(deviations);
  if (auto failure = run(chooser, {})) return failure;
  for (const Choice& choice : chooser.choices()) {
    if (!permits(deviations, choice.point.kind)) continue;
    for (std::uint32_t option = 1; option < choice.options; ++option) {
      if (Clock::now() >= end) {
        complete_ = false;
        return std::nullopt;
      }
      deviations.push_back({choice.point, static_cast<std::uint8_t>(option)});
      auto failure = explore(deviations, end);
      deviations.pop_back();
      if (failure) return failure;
    }
  }
  return std::nullopt;
}

// Large parts first; single ones until none can be removed.
Search::Failure Search::shrink(Failure failure) {
  for (std::size_t part = std::max<std::size_t>(failure.deviations.size() / 2, 1);;) {
    const std::size_t before = failure.deviations.size();
    for (std::size_t at = 0; at < failure.deviations.size();) {
      Deviations fewer = failure.deviations;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(first, first + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - at)));
      auto smaller = repeat(fewer, false);
      if (smaller && smaller->deviations.size() < failure.deviations.size()) {
        failure = std::move(*smaller);
      } else {
        at += part;
      }
    }
    if (part == 1 && failure.deviations.size() == before) return failure;
    part = std::max<std::size_t>(part / 2, 1);
  }
}

std::string text_of(const Deviations& deviations) {
  std::string text;
  for (const Deviation& deviation : deviations) {
    if (!text.empty()) text += ' ';
    const Point& point = deviation.point;
    text += std::to_string(point.thread) + ':' + std::to_string(point.step) +
            kLetters[static_cast<std::size_t>(point.kind)] + std::to_string(deviation.choice);
  }
  return text;
}

Deviations parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  Deviations deviations;
  Point point;
  char colon = 0;
  char letter = 0;
  unsigned choice = 0;
  while (in >> point.thread >> colon >> point.step >> letter >> choice) {
    const auto kind = std::ranges::find(kLetters, letter);
    if (kind == std::end(kLetters)) {
      throw std::invalid_argument("no kind of deviation: " + std::string(text));
    }
    point.kind = static_cast<Kind>(kind - kLetters);
    deviations.push_back({point, static_cast<std::uint8_t>(choice)});
  }
  return deviations;
}

}  // namespace shmtensor::simulation
