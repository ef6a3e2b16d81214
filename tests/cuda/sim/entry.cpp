// The entry checks of every call, and the controls of the simulator for tests.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

struct Fault {
  std::string name;
  long nth;  ///< 0: every time
  Result code;
};

struct Door {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> counts;
  std::vector<std::string> log;
  std::vector<Fault> faults;
  bool read_environment = false;
};

Door& door() {
  static Door* const made = new Door;
  return *made;
}

// "name:nth:code,name:nth:code"
void read_faults(Door& here) {
  here.read_environment = true;
  const char* text = std::getenv("SHMTENSOR_SIM_FAULTS");
  if (text == nullptr) return;
  std::string rest = text;
  while (!rest.empty()) {
    const std::string one = rest.substr(0, rest.find(','));
    rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
    const auto first = one.find(':');
    const auto second = one.find(':', first + 1);
    here.faults.push_back({one.substr(0, first), std::atol(one.c_str() + first + 1),
                           std::atoi(one.c_str() + second + 1)});
  }
}

Result injected(const char* name) {
  Door& here = door();
  const std::lock_guard guard(here.mutex);
  if (!here.read_environment) read_faults(here);
  const std::uint64_t count = ++here.counts[name];
  for (const Fault& fault : here.faults) {
    if (fault.name != name) continue;
    if (fault.nth == 0 || static_cast<std::uint64_t>(fault.nth) == count) return fault.code;
  }
  return 0;
}

}  // namespace

State& state() {
  static State* const made = new State;
  return *made;
}

std::uint64_t new_id() {
  static std::atomic<std::uint64_t> counter{0};
  return static_cast<std::uint64_t>(::getpid()) << 32 | ++counter;
}

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

bool chosen(const char* name, const char* value) {
  const char* text = std::getenv(name);
  return text != nullptr && std::strcmp(text, value) == 0;
}

bool mode_is(const char* name) { return chosen("SHMTENSOR_SIM_MODE", name); }

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Context* current() { return context_stack().empty() ? nullptr : context_stack().back(); }

Result enter(const char* name, Needs needs) {
  if (state().ended.load()) return cuda::kDeinitialized;
  const int pid = state().pid.load();
  // Another thread may have held a lock when this process was forked, so this function takes none.
  if (pid != 0 && pid != ::getpid()) return cuda::kNotInitialized;
  if (const Result fault = injected(name)) return fault;
  if (needs != Needs::nothing && pid == 0) return cuda::kNotInitialized;
  if (const Result refused = refuse_unsafe(name)) return refused;
  if (needs == Needs::context) {
    const Context* context = current();
    if (context == nullptr) return cuda::kInvalidContext;
    if (context->retained == 0) return cuda::kContextDestroyed;
  }
  return 0;
}

void leave(const char* name, Result result) {
  const int pid = state().pid.load();
  if (state().ended.load() || (pid != 0 && pid != ::getpid())) return;
  Door& here = door();
  const std::lock_guard guard(here.mutex);
  here.log.push_back(std::string(name) + " " + std::to_string(result));
}

bool runs(int pid) {
  if (::kill(pid, 0) != 0) return false;
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return errno != ENOENT;
  char line[512] = {};
  const bool read = std::fgets(line, sizeof line, file) != nullptr;
  std::fclose(file);
  const char* end = read ? std::strrchr(line, ')') : nullptr;
  return end != nullptr && end[1] != '\0' && end[2] != 'Z' && end[2] != 'X';
}

bool kills_owner(int pid) {
  return setting("SHMTENSOR_SIM_KILL_OWNER", 0) != 0 && ::kill(pid, SIGKILL) == 0;
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;  // NOLINT: what follows is the library's surface

/// Returns how often a function was called in this process.
SIM_EXPORT std::uint64_t sim_calls(const char* name) {
  const std::lock_guard guard(door().mutex);
  return door().counts[name];
}

/// Returns the number of all calls of this process.
SIM_EXPORT std::uint64_t sim_all_calls() {
  const std::lock_guard guard(door().mutex);
  std::uint64_t all = 0;
  for (const auto& [name, count] : door().counts) all += count;
  return all;
}

/// "name result" in a connection each, in order; valid until the next call of this function.
SIM_EXPORT const char* sim_log() {
  static auto* const text = new std::string;
  const std::lock_guard guard(door().mutex);
  text->clear();
  for (const std::string& line : door().log) *text += line + "\n";
  return text->c_str();
}

/// Makes the nth call of a function from now on (0: each call) return the code without effect.
SIM_EXPORT void sim_fault(const char* name, long nth, int code) {
  const std::lock_guard guard(door().mutex);
  const long seen = static_cast<long>(door().counts[name]);
  door().faults.push_back({name, nth == 0 ? 0 : seen + nth, code});
}

SIM_EXPORT void sim_no_faults() {
  const std::lock_guard guard(door().mutex);
  door().faults.clear();
}

SIM_EXPORT std::uint64_t sim_live_bytes() { return live_bytes(); }
