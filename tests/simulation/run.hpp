// One run of a simulated program: its threads take turns, and every choice is asked for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/fiber.hpp"
#include "simulation/history.hpp"

namespace shmtensor::simulation {

/// What may go otherwise than usual before an access to a word that several threads use.
enum class Kind : std::uint8_t {
  preempt,  ///< another thread goes on
  kill,     ///< the process of the thread is killed
  stale,    ///< the access reads an older value
  order,    ///< after a thread has ended, or waits: which one goes on
  stop,     ///< the thread is stopped until no other one can go on
  timeout,  ///< a sleep ends by its timeout
};
inline constexpr std::uint32_t kKinds = 6;

/// Where a run may deviate: no two points of a run are equal. A thread counts its own steps, so
/// that a point stays the same if another thread deviates less.
struct Point {
  std::uint32_t thread = 0;
  std::uint32_t step = 0;
  Kind kind = Kind::preempt;

  bool operator==(const Point&) const = default;
};

/// A run is determined by what is not as usual in it.
struct Deviation {
  Point point;
  std::uint8_t choice = 0;
};

/// Threads: one.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Return a number less than `options`; 0 is the usual one.
  virtual std::uint32_t choose(const Point& point, std::uint32_t options) = 0;
};

using ProcessNumber = std::uint32_t;

/// Threads: one; those of the simulated program are fibers.
class Run {
 public:
  static constexpr std::uint32_t kThreads = 8;
  static constexpr std::uint64_t kForever = ~std::uint64_t{0};  ///< nanoseconds: no timeout

  Run();

  // --- for a program, before it runs ---

  /// The first thread that is added runs first.
  ProcessNumber add_process(std::string name, bool may_be_killed);
  void add_thread(ProcessNumber process, std::function<void()> body);

  // --- for a program's threads ---

  /// Ends the run as failed unless `holds`.
  void expect(bool holds, const char* rule);
  /// Waits until it holds, which another thread brings about. What that one has written before is
  /// visible then, as after a message by a socket.
  void wait_until(std::function<bool()> holds);
  /// Kills the process of the thread.
  void kill();
  /// For the manager: return a process that has died and was not returned before.
  [[nodiscard]] bool has_death() const noexcept { return !deaths_.empty(); }
  [[nodiscard]] ProcessNumber next_death();
  /// For the manager, as the kernel would answer: what a dead process has written is visible then.
  [[nodiscard]] bool ask_if_dead(ProcessNumber process);
  [[nodiscard]] bool is_dead(ProcessNumber process) const noexcept {
    return processes_[process].dead;
  }
  /// Return true if a process was killed, or a sleep ended by its timeout.
  [[nodiscard]] bool is_disturbed() const noexcept {
    return std::ranges::any_of(outcome_.deviations, [](const Deviation& deviation) {
      return deviation.point.kind == Kind::kill || deviation.point.kind == Kind::timeout;
    });
  }
  /// Return true if the process is dead, or has no thread any more.
  [[nodiscard]] bool has_ended(ProcessNumber process) const noexcept;

  // --- for a search ---

  struct Settings {
    bool learns = true;      ///< adds to what is known of contended words
    bool all_words = false;  ///< asks at each access, contended or not: for a repetition
    bool trace = false;
    std::uint32_t most_steps = 200'000;
  };
  struct Outcome {
    std::optional<std::string> failure;
    std::uint32_t steps = 0;
    std::uint32_t switches = 0;  ///< from one thread to another
    std::vector<Deviation> deviations;
  };
  /// Clears the threads of the run before.
  void begin(Chooser& chooser, const Settings& settings);
  /// Runs until no thread can go on.
  void go();
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }
  /// Reports a failure that the program's check found after the run.
  void fail(const char* why);
  /// The number of words that were contended in any run.
  [[nodiscard]] std::size_t contended() const noexcept { return history_.contended(); }

  // --- for the seam; without a thread that runs, an access is a plain one ---

  static Run* running() noexcept { return running_; }
  std::uint64_t load(const void* at, std::size_t size, std::memory_order order);
  /// Before the caller changes memory; then `note_store` or `note_change`.
  void before_change(const void* at);
  void note_store(const void* at, std::memory_order order, std::uint64_t before,
                  std::uint64_t after);
  void note_change(const void* at, const char* what, std::memory_order order, std::uint64_t before,
                   std::uint64_t after);
  /// Of a compare-and-swap that fails.
  void note_load(const void* at, std::memory_order order, std::uint64_t in_memory);
  /// Sleeps until `wake` if the word is `expected`. Returns false after a timeout.
  bool sleep(const std::uint32_t& word, std::uint32_t expected, std::uint64_t nanoseconds);
  std::uint32_t wake(const void* word, std::uint32_t count);
  /// Lets another thread go on, if there is one.
  void yield();
  [[nodiscard]] std::uint64_t nanoseconds() noexcept { return time_ += 100; }
  /// Two processes have the same numbers.
  [[nodiscard]] std::uint32_t thread_number() const noexcept;

 private:
  enum class State : std::uint8_t { ready, sleeping, waiting, ended };

  struct Thread {
    Fiber fiber;
    std::function<void()> body;
    Run* run = nullptr;
    ProcessNumber process = 0;
    std::uint32_t steps = 0;
    State state = State::ended;
    bool yielded = false;
    bool stopped = false;
    Place place = 0;              ///< of the word on which it sleeps
    std::function<bool()> holds;  ///< for which it waits
    View view;
  };
  struct Process {
    std::string name;
    bool may_be_killed = false;
    bool dead = false;
  };

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  static void start(void* thread);
  [[nodiscard]] Thread& current() noexcept { return *threads_[current_]; }
  /// One step of the running thread: another one may go on, or its process may be killed here.
  History::Word& step(const void* at, bool writes);
  void count_step();
  void leave(State state);
  void kill_process();
  void join_views();
  [[nodiscard]] std::uint32_t choose(Kind kind, std::uint32_t options);
  [[nodiscard]] std::uint32_t next_thread();
  bool continue_stopped();
  [[nodiscard]] bool is_ready(Thread& thread);
  [[nodiscard]] std::vector<std::uint32_t>& others_that_are_ready();
  [[nodiscard]] static bool is_shown(const History::Word& word);
  void print(const char* what, Place place, std::uint64_t before, std::uint64_t after) const;
  [[noreturn]] void end_failed(const char* why);

  static Run* running_;

  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint32_t thread_count_ = 0;
  std::vector<Process> processes_;
  std::deque<ProcessNumber> deaths_;
  History history_;
  Chooser* chooser_ = nullptr;
  Settings settings_;
  Outcome outcome_;
  std::uint32_t current_ = kNone;
  std::uint32_t next_ = kNone;  // the thread that was chosen to go on
  std::vector<std::uint32_t> ready_;
  std::uint64_t time_ = 0;
  std::uint32_t rounds_ = 0;  // in which all threads have yielded
};

}  // namespace shmtensor::simulation
