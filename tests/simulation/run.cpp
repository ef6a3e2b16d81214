#include "simulation/run.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "simulation/snapshot.hpp"

namespace shmtensor::simulation {

using Heap = Snapshot::Heap;
using UseHeap = Snapshot::UseHeap;

Run* Run::running_ = nullptr;

Run::Run() {
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->run = this;
  }
}

ProcessNumber Run::add_process(std::string name, bool may_be_killed) {
  Process& process = processes_.emplace_back();
  process.name = std::move(name);
  process.may_be_killed = may_be_killed;
  return static_cast<ProcessNumber>(processes_.size() - 1);
}

void Run::add_thread(ProcessNumber process, std::function<void()> body) {
  Thread& thread = *threads_.at(thread_count_++);
  thread.body = std::move(body);
  thread.process = process;
  thread.steps = 0;
  thread.state = State::ready;
  thread.yielded = false;
  thread.stopped = false;
  thread.view.clear();
  thread.fiber.start(&Run::start, &thread);
}

void Run::start(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Snapshot::use(Heap::simulated);
  try {
    thread.body();
  } catch (const std::exception& error) {
    Snapshot::use(Heap::own);
    thread.run->end_failed(error.what());
  }
  Snapshot::use(Heap::own);
  thread.run->leave(State::ended);
}

void Run::begin(Chooser& chooser, const Settings& settings) {
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    threads_[i]->body = nullptr;
    threads_[i]->holds = nullptr;
  }
  thread_count_ = 0;
  processes_.clear();
  deaths_.clear();
  chooser_ = &chooser;
  settings_ = settings;
  outcome_ = {};
  current_ = kNone;
  next_ = kNone;
  time_ = 0;
  rounds_ = 0;
  history_.clear(settings.learns);
}

void Run::go() {
  while (!outcome_.failure) {
    const std::uint32_t next = next_ != kNone ? std::exchange(next_, kNone) : next_thread();
    if (next == kNone) break;
    current_ = next;
    ++outcome_.switches;
    running_ = this;
    current().fiber.enter();
    running_ = nullptr;
    Snapshot::use(Heap::own);
  }
}

std::uint32_t Run::choose(Kind kind, std::uint32_t options) {
  if (options < 2) return 0;
  const bool begins = current_ == kNone;
  const Point point{begins ? kThreads : current_, begins ? 0 : current().steps, kind};
  const std::uint32_t choice = chooser_->choose(point, options);
  if (choice == 0) return 0;
  outcome_.deviations.push_back({point, static_cast<std::uint8_t>(choice)});
  return choice;
}

bool Run::is_ready(Thread& thread) {
  if (thread.state == State::waiting && thread.holds()) thread.state = State::ready;
  return thread.state == State::ready && !thread.stopped;
}

std::vector<std::uint32_t>& Run::others_that_are_ready() {
  ready_.clear();
  const std::uint32_t from = current_ == kNone ? thread_count_ - 1 : current_;
  for (std::uint32_t i = 1; i <= thread_count_; ++i) {
    const std::uint32_t thread = (from + i) % thread_count_;
    if (thread != current_ && is_ready(*threads_[thread])) ready_.push_back(thread);
  }
  return ready_;
}

// A thread that yields goes on after all others have yielded, too; a stopped one after all others
// have ended, sleep, or have yielded so often that they wait for it.
std::uint32_t Run::next_thread() {
  constexpr std::uint32_t kPatience = 200;
  std::vector<std::uint32_t>& ready = others_that_are_ready();
  if (current_ != kNone && is_ready(current())) ready.push_back(current_);
  const auto yielded = [this](std::uint32_t thread) { return threads_[thread]->yielded; };
  if (std::ranges::all_of(ready, yielded)) {
    for (const std::uint32_t thread : ready) threads_[thread]->yielded = false;
    if ((ready.empty() || ++rounds_ % kPatience == 0) && continue_stopped()) return next_thread();
  } else {
    std::erase_if(ready, yielded);
  }
  if (ready.empty()) return kNone;
  return ready[choose(Kind::order, static_cast<std::uint32_t>(ready.size()))];
}

bool Run::continue_stopped() {
  bool any = false;
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    any = std::exchange(threads_[i]->stopped, false) || any;
  }
  return any;
}

void Run::count_step() {
  ++current().steps;
  if (++outcome_.steps > settings_.most_steps) end_failed("the program does not end");
}

void Run::leave(State state) {
  ++current().steps;  // no two points are equal
  current().state = state;
  current().fiber.leave();
}

History::Word& Run::step(const void* at, bool writes) {
  count_step();
  const Place place = Places::get().of(at);
  History::Word* const word = &history_.word(place);
  history_.note_access(*word, current_, writes);
  current().yielded = false;
  if (!History::is_contended(*word) && !settings_.all_words) return *word;
  const std::vector<std::uint32_t>& others = others_that_are_ready();
  const auto options = static_cast<std::uint32_t>(others.size()) + 1;
  if (const std::uint32_t choice = choose(Kind::preempt, options); choice != 0) {
    next_ = others[choice - 1];
    leave(State::ready);
  } else if (processes_[current().process].may_be_killed && choose(Kind::kill, 2) != 0) {
    kill_process();
  } else if (options > 1 && choose(Kind::stop, 2) != 0) {
    if (settings_.trace) print("is stopped", place, 0, 0);
    current().stopped = true;
    leave(State::ready);
  }
  return *word;
}

void Run::kill_process() {
  const ProcessNumber number = current().process;
  Process& process = processes_[number];
  if (settings_.trace)
    std::printf("%3u:%-6u %-10s is killed\n", current_, current().steps, process.name.c_str());
  process.dead = true;
  deaths_.push_back(number);
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    Thread& thread = *threads_[i];
    if (thread.process == number) thread.state = State::ended;
  }
  current().fiber.leave();
}

std::uint64_t Run::load(const void* at, std::size_t size, std::memory_order order) {
  const UseHeap own(Heap::own);
  const History::Word& word = step(at, false);
  std::uint64_t newest = 0;
  std::memcpy(&newest, at, size);
  const std::uint32_t values = history_.choices(word, current().view, order);
  const std::uint32_t age = choose(Kind::stale, values);
  const std::uint64_t value = history_.load(word, current().view, order, age, newest);
  if (settings_.trace && is_shown(word)) {
    print(age == 0 ? "load" : "load stale", word.place, value, value);
  }
  return value;
}

void Run::before_change(const void* at) {
  const UseHeap own(Heap::own);
  step(at, true);
}

void Run::note_store(const void* at, std::memory_order order, std::uint64_t before,
                     std::uint64_t after) {
  const UseHeap own(Heap::own);
  History::Word& word = history_.word(Places::get().of(at));
  history_.store(word, current().view, order, before, after);
  if (settings_.trace && is_shown(word)) print("store", word.place, before, after);
}

void Run::note_change(const void* at, const char* what, std::memory_order order,
                      std::uint64_t before, std::uint64_t after) {
  const UseHeap own(Heap::own);
  History::Word& word = history_.word(Places::get().of(at));
  history_.modify(word, current().view, order, before, after);
  if (settings_.trace && is_shown(word)) print(what, word.place, before, after);
}

void Run::note_load(const void* at, std::memory_order order, std::uint64_t in_memory) {
  const UseHeap own(Heap::own);
  const History::Word& word = history_.word(Places::get().of(at));
  history_.load(word, current().view, order, 0, in_memory);
  if (settings_.trace && is_shown(word)) {
    print("swap fails", word.place, in_memory, in_memory);
  }
}

bool Run::sleep(const std::uint32_t& word, std::uint32_t expected, std::uint64_t nanoseconds) {
  const UseHeap own(Heap::own);
  step(&word, false);
  if (word != expected) return true;
  current().place = Places::get().of(&word);
  if (settings_.trace) print("sleep", current().place, expected, expected);
  if (nanoseconds == kForever || choose(Kind::timeout, 2) == 0) {
    leave(State::sleeping);
    return true;
  }
  time_ += nanoseconds;
  leave(State::ready);
  return false;
}

std::uint32_t Run::wake(const void* word, std::uint32_t count) {
  const UseHeap own(Heap::own);
  step(word, true);
  const Place place = Places::get().of(word);
  std::uint32_t woken = 0;
  for (std::uint32_t i = 0; i < thread_count_ && woken < count; ++i) {
    Thread& thread = *threads_[i];
    if (thread.state != State::sleeping || thread.place != place) continue;
    thread.state = State::ready;
    ++woken;
  }
  if (settings_.trace) print("wake", place, count, woken);
  return woken;
}

void Run::yield() {
  const UseHeap own(Heap::own);
  count_step();
  current().yielded = true;
  leave(State::ready);
}

void Run::wait_until(std::function<bool()> holds) {
  const UseHeap own(Heap::own);
  if (!holds()) {
    current().holds = std::move(holds);
    leave(State::waiting);
    current().holds = nullptr;
  }
  join_views();
}

void Run::kill() {
  const UseHeap own(Heap::own);
  kill_process();
}

ProcessNumber Run::next_death() {
  const UseHeap own(Heap::own);
  const ProcessNumber dead = deaths_.front();
  deaths_.pop_front();
  return dead;
}

bool Run::ask_if_dead(ProcessNumber process) {
  const UseHeap own(Heap::own);
  if (is_dead(process)) join_views();
  return is_dead(process);
}

void Run::join_views() {
  for (std::uint32_t i = 0; i < thread_count_; ++i) current().view.join(threads_[i]->view);
}

bool Run::has_ended(ProcessNumber process) const noexcept {
  return std::all_of(threads_.begin(), threads_.begin() + thread_count_, [&](const auto& thread) {
    return thread->process != process || thread->state == State::ended;
  });
}

std::uint32_t Run::thread_number() const noexcept {
  const ProcessNumber process = threads_[current_]->process;
  const auto begin = threads_.begin();
  return static_cast<std::uint32_t>(std::count_if(
      begin, begin + current_ + 1, [&](const auto& thread) { return thread->process == process; }));
}

void Run::expect(bool holds, const char* rule) {
  if (holds) return;
  const UseHeap own(Heap::own);
  end_failed(rule);
}

void Run::fail(const char* why) {
  const UseHeap own(Heap::own);
  if (!outcome_.failure) outcome_.failure = why;
}

void Run::end_failed(const char* why) {
  fail(why);
  current().fiber.leave();
  __builtin_unreachable();
}

bool Run::is_shown(const History::Word& word) {
  return History::is_contended(word) || Places::get().has_name(word.place);
}

void Run::print(const char* what, Place place, std::uint64_t before, std::uint64_t after) const {
  const Thread& thread = *threads_[current_];
  std::printf("%3u:%-6u %-10s %-12s %-28s %18llx", current_, thread.steps,
              processes_[thread.process].name.c_str(), what, Places::get().text_of(place).c_str(),
              static_cast<unsigned long long>(before));
  if (after != before) std::printf(" -> %llx", static_cast<unsigned long long>(after));
  std::printf("\n");
}

}  // namespace shmtensor::simulation
