// Runs the simulated programs: docs/design/verification.md.
#include <sched.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "simulation/search.hpp"
#include "simulation/snapshot.hpp"

namespace shmtensor::simulation {
namespace {

using Clock = Search::Clock;
using std::chrono::duration;

struct Options {
  std::string program;  // the beginning of names; empty: all that are right
  double seconds = 30;  // for all programs
  std::optional<std::uint64_t> seed;
  std::optional<Deviations> repeated;
  std::uint64_t first_seed = static_cast<std::uint64_t>(std::time(nullptr)) / 86400 * 1'000'000;
  bool trace = false;
  bool first_failure = false;  // ends after it
  bool exhaustive = true;
  bool random = true;
};

void report(const std::string& name, const char* how, Search& search, double seconds,
            const char* result) {
  const auto millions = [seconds](std::uint64_t count) {
    return static_cast<double>(count) / seconds / 1e6;
  };
  std::printf(
      "%-36s %-10s %8.1f s %9llu runs; millions a second: %6.2f steps, %5.2f switches  %s\n",
      name.c_str(), how, seconds, static_cast<unsigned long long>(search.runs()),
      millions(search.steps()), millions(search.switches()), result);
  std::fflush(stdout);
}

int show(const std::string& name, Search& search, Search::Failure failure,
         std::optional<std::uint64_t> seed) {
  std::printf("\nFAILED: %s: %s\n", name.c_str(), failure.rule.c_str());
  if (seed)
    std::printf("  --program %s --seed %llu\n", name.c_str(),
                static_cast<unsigned long long>(*seed));
  const std::size_t before = failure.deviations.size();
  failure = search.shrink(std::move(failure));
  std::printf("  --program %s --repeat \"%s\" --trace\n", name.c_str(),
              text_of(failure.deviations).c_str());
  std::printf("  %zu deviations, %zu before shrinking: %s\n", failure.deviations.size(), before,
              failure.rule.c_str());
  search.repeat(failure.deviations, true);
  return 1;
}

int run_program(const NamedProgram& named, const Options& options, double seconds) {
  std::unique_ptr<Program> program;
  {
    const Snapshot::UseHeap simulated(Snapshot::Heap::simulated);
    program = named.make();
    program->build();
  }
  Search search(*program);
  Snapshot::get().take();
  if (options.repeated) {
    const auto failure = search.repeat(*options.repeated, options.trace);
    std::printf("%s\n", failure ? failure->rule.c_str() : "no rule is broken");
    return failure ? 1 : 0;
  }
  if (options.seed) {
    if (auto failure = search.random(*options.seed)) {
      return show(named.name, search, *failure, options.seed);
    }
    return 0;
  }
  const auto begin = Clock::now();
  const auto after = [begin](double s) {
    return begin + std::chrono::duration_cast<Clock::duration>(duration<double>(s));
  };
  const auto passed = [begin] { return duration<double>(Clock::now() - begin).count(); };
  if (options.exhaustive) {
    if (auto failure = search.exhaustive(after(seconds / 2))) {
      report(named.name, "exhaustive", search, passed(), "FAILED");
      return show(named.name, search, *failure, std::nullopt);
    }
    report(named.name, "exhaustive", search, passed(), search.complete() ? "complete" : "");
  }
  if (!options.random) return 0;
  Search seeds(*program);
  const double from = passed();
  std::uint64_t seed = options.first_seed;
  for (; Clock::now() < after(seconds); ++seed) {
    if (auto failure = seeds.random(seed)) {
      report(named.name, "random", seeds, passed() - from, "FAILED");
      return show(named.name, seeds, *failure, seed);
    }
  }
  report(named.name, "random", seeds, passed() - from, "");
  return 0;
}

Options parse_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string { return i + 1 < count ? words[++i] : ""; };
    if (word == "--program") {
      options.program = value();
    } else if (word == "--seconds") {
      options.seconds = std::stod(value());
    } else if (word == "--seed") {
      options.seed = std::stoull(value());
    } else if (word == "--first-seed") {
      options.first_seed = std::stoull(value());
    } else if (word == "--repeat") {
      options.repeated = parse(value());
    } else if (word == "--trace") {
      options.trace = true;
    } else if (word == "--first-failure") {
      options.first_failure = true;
    } else if (word == "--only") {
      const std::string only = value();
      options.random = only == "random";
      options.exhaustive = only == "exhaustive";
    } else {
      throw std::invalid_argument("unknown option " + word);
    }
  }
  return options;
}

int run_all(const Options& options) {
  std::vector<const NamedProgram*> chosen;
  for (const NamedProgram& named : programs()) {
    if (options.program.empty() ? !named.name.starts_with("wrong/")
                                : named.name.starts_with(options.program)) {
      chosen.push_back(&named);
    }
  }
  if (chosen.empty()) throw std::invalid_argument("no program is named " + options.program);
  std::printf("first seed: %llu\n", static_cast<unsigned long long>(options.first_seed));
  std::fflush(stdout);
  int failed = 0;
  for (const NamedProgram* named : chosen) {
    const pid_t child = ::fork();  // a program may crash, and leaves its memory behind
    if (child == 0) {
      const int result =
          run_program(*named, options, options.seconds / static_cast<double>(chosen.size()));
      std::fflush(stdout);
      ::_exit(result);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      std::printf("%s: killed by signal %d\n", named->name.c_str(), WTERMSIG(status));
    }
    if (status != 0) ++failed;
    if (status != 0 && options.first_failure) break;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shmtensor::simulation

int main(int count, char** words) {
  // A run must not depend on the addresses that the kernel chooses, nor on the processor.
  const int personality = ::personality(0xffffffff);
  if ((personality & ADDR_NO_RANDOMIZE) == 0 &&
      ::personality(static_cast<unsigned long>(personality) | ADDR_NO_RANDOMIZE) >= 0) {
    ::execv("/proc/self/exe", words);
  }
  try {
    return shmtensor::simulation::run_all(shmtensor::simulation::parse_options(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
