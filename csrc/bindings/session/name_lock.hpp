// A name that one process changes.
#pragma once

#include <cstdint>

#include "arena/name_table.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// The lock on a name: its stage is `busy`, with this process as the owner. Acquired and released
/// here, since a signal handler of Python's may raise between two steps of Python code; the end of
/// the object releases the lock at the latest. A forked child and a raw copy own no lock.
/// Threads: one at a time.
class NameLock {
 public:
  explicit NameLock(std::uint32_t number) noexcept : number_(number) {}
  ~NameLock();
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] bool held() const noexcept;
  /// Returns false if the state is not `seen` any more.
  bool acquire(std::uint64_t seen);
  /// Throws SessionError if this process does not hold the lock; likewise below.
  void write(const py::bytes& handles);
  void publish() { release(NameStage::published); }
  /// Also if it is not held. Throws SessionError if the lock was lost.
  void release() {
    if (held()) release(NameStage::free);
  }

 private:
  void require_held() const;
  void release(NameStage stage);
  [[nodiscard]] bool change(NameState seen, NameStage stage);

  std::uint32_t number_;
  std::uint32_t forks_ = 0;  // of the process that acquired it
  bool acquired_ = false;
  NameState state_;
};

void add_name_lock(py::module_& module);

}  // namespace shmtensor::python
