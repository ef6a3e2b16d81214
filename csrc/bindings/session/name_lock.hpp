// A name that one process changes.
#pragma once

#include <cstdint>
#include <optional>

#include "arena/name_table.hpp"
#include "bindings/session/origin.hpp"
#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// The lock on a name: its stage is `busy` or `replacing`, with this process as the owner. Acquired
/// and released here, since a signal handler of Python's may raise between two steps of Python
/// code; the end of the object releases the lock at the latest. A forked child and a raw copy own
/// no lock. Threads: one at a time.
class NameLock {
 public:
  explicit NameLock(std::uint32_t number) noexcept : number_(number) {}
  ~NameLock();
  NameLock(const NameLock&) = delete;
  NameLock& operator=(const NameLock&) = delete;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] bool held() const noexcept;
  /// Returns false if the state is not `seen` any more. With `keep`, a published object stays
  /// published until `publish`; otherwise no process can attach from now on.
  bool acquire(std::uint64_t seen, bool keep);
  /// Returns the handles in the record that are not published, each with its place. Throws
  /// SessionError if this process does not hold the lock; likewise below.
  [[nodiscard]] py::list unpublished() const;
  void erase(std::uint32_t place);
  /// Writes what `publish` will publish: the handle, the size of its blocks, and the seconds for
  /// which it is kept, unless other libraries' memory is part of it.
  void write(const py::bytes& bytes, std::uint64_t size, double seconds, bool external);
  /// Returns the mark of the tickets of what is written.
  [[nodiscard]] std::uint32_t mark() const noexcept {
    return NameTable::mark_of(number_, state_.place() ^ 1);
  }
  /// Publishes it, in place of the present one. The lock stays held.
  void publish();
  /// Keeps the published object for so many seconds.
  void keep(double seconds);
  /// Also if it is not held. Throws SessionError if the lock was lost.
  void release();

 private:
  void require_held() const;
  [[nodiscard]] NameRecord& record() const;
  void change_held(NameStage stage, std::uint32_t place);
  [[nodiscard]] bool change(NameState seen, NameStage stage, std::uint32_t place);

  std::uint32_t number_;
  std::optional<Origin> owner_;  ///< the process that acquired it
  NameState state_;
};

void add_name_lock(py::module_& module);

}  // namespace shmtensor::python
