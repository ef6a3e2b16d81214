// A program for the simulation. CONTRIBUTING.md has a short one.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic.hpp"
#include "simulation/run.hpp"

namespace shmtensor::simulation {

class Program {
 public:
  /// How many deviations of each kind an exhaustive search combines.
  struct Limits {
    std::uint32_t of_kind[kKinds] = {2, 2, 1, 1, 1, 1};
    std::uint32_t all = 3;
  };

  virtual ~Program() = default;
  /// Makes the shared memory and the objects of all processes, once, and maps what a run uses: a
  /// mapping that is made later is not put back.
  virtual void build() = 0;
  /// Adds the processes and threads of a run.
  virtual void start(Run& run) = 0;
  /// Checks what is left after a run, and reports by `Run::fail`.
  virtual void check(Run& run) = 0;
  [[nodiscard]] virtual Limits limits() const { return {}; }
};

/// Return what is in memory; not a step of the run.
template <typename T>
[[nodiscard]] T raw(const Atomic<T>& word) noexcept {
  T value;
  std::memcpy(&value, static_cast<const void*>(&word), sizeof value);
  return value;
}

struct NamedProgram {
  std::string name;
  std::function<std::unique_ptr<Program>()> make;
};

[[nodiscard]] std::vector<NamedProgram>& programs();

/// Lists a program, with its roles if it has any, as an object with static storage.
template <typename Type>
struct Register {
  explicit Register(const char* name) {
    programs().push_back({name, [] { return std::make_unique<Type>(); }});
  }
  template <typename Of = Type>
  Register(const char* name, const typename Of::Roles& roles) {
    programs().push_back({name, [roles] { return std::make_unique<Type>(roles); }});
  }
};

}  // namespace shmtensor::simulation
