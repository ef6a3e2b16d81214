// What Python's objects need of their synchronization primitives in this process.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <algorithm>
#include <memory>
#include <utility>

#include "arena/reclaim.hpp"
#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/object_type.hpp"
#include "bindings/storage/allocation.hpp"
#include "os/backoff.hpp"
#include "os/fork_mark.hpp"
#include "os/thread_observer.hpp"
#include "session/session.hpp"
#include "sync/barrier.hpp"
#include "sync/condition.hpp"
#include "sync/event.hpp"
#include "sync/lock.hpp"
#include "sync/semaphore.hpp"
#include "sync/waiting.hpp"

namespace shmtensor::python {

template <typename Core>
struct OpenPrimitive : OpenChannel {
  OpenPrimitive(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)),
        core(block.arena->bytes(block.number, Access::read_write)),
        arena(*block.arena),
        number(block.number) {}

  /// Of this process. Throws SessionError if it has none.
  [[nodiscard]] SlotNumber slot() const {
    session->require_slot();
    return session->slot();
  }
  /// kNoSlot if this process has none.
  [[nodiscard]] SlotNumber slot_if_any() const noexcept {
    return is_raw_copy() ? kNoSlot : session->slot();
  }
  std::shared_ptr<Session> session;
  Core core;
  const Arena& arena;
  const BlockNumber number;
};

/// Some things happen with the last object of a block only. Each object is one of the references to
/// the block that this process has; the storage, which they have in common, is another one.
template <typename Core>
struct OpenShare : OpenPrimitive<Core> {
  OpenShare(std::shared_ptr<Session> joined, const Block& block)
      : OpenPrimitive<Core>(std::move(joined), block) {
    LocalTable::Lock lock(this->arena.local(), this->number);
    lock.set_count(lock.count() + 1);
  }

 protected:
  [[nodiscard]] bool is_last() const noexcept {
    return LocalTable::Lock(this->arena.local(), this->number).count() == 2;
  }
  /// For the destructor. `try_leave` must not block; it is called again for kMoment if it returns
  /// false. Until the entry is unlocked, no thread can make another object, and use it.
  template <typename Leave>
  void end(Leave&& try_leave) noexcept {
    if (is_raw_copy()) return;  // a thread of the parent may have the entry locked
    Patience moment(kMoment);
    for (Backoff backoff;; backoff.pause()) {
      LocalTable::Lock lock(this->arena.local(), this->number);
      if (lock.count() == 2 && !try_leave() && moment.left().count() != 0) continue;
      return lock.set_count(lock.count() - 1);
    }
  }
};

struct OpenLock : OpenShare<sync::Lock> {
  static constexpr auto kName = "lock";
  using OpenShare::OpenShare;
  ~OpenLock() override {
    end([] { return true; });
  }

  /// Another process may use it, and if this one did not hold the block, the manager would not find
  /// that it has the lock. Python keeps such an object, but not when the interpreter ends.
  [[nodiscard]] bool keeps_block() const noexcept override {
    return core.is_owned_by(slot_if_any()) && is_last() &&
           is_used_elsewhere(arena.segment(), number, session->slot(), session->memory());
  }
};

/// A thread that ends with the lock gives it back: no other one may release it.
struct OpenRecursiveLock final : OpenLock, private ThreadObserver {
  static constexpr auto kName = "recursive lock";
  OpenRecursiveLock(std::shared_ptr<Session> joined, const Block& block);
  ~OpenRecursiveLock() override { stop_observing(); }

  /// The calling thread may be about to acquire it.
  static void expect_owner() { observe_this_thread(); }

 private:
  void end_thread() noexcept override;
};

struct OpenSemaphore final : OpenShare<sync::Semaphore> {
  static constexpr auto kName = "semaphore";
  using OpenShare::OpenShare;
  ~OpenSemaphore() override {
    end([this] {
      const SlotNumber slot = slot_if_any();
      return !core.owns_any(slot) ||
             core.disown(slot, std::chrono::nanoseconds::zero()) != sync::Taken::locked;
    });
  }
};
struct OpenEvent final : OpenPrimitive<sync::Event> {
  static constexpr auto kName = "event";
  using OpenPrimitive::OpenPrimitive;
};
struct OpenCondition final : OpenPrimitive<sync::Condition> {
  static constexpr auto kName = "condition";
  using OpenPrimitive::OpenPrimitive;
};
struct OpenBarrier final : OpenShare<sync::Barrier> {
  static constexpr auto kName = "barrier";
  using OpenShare::OpenShare;
  ~OpenBarrier() override {
    end([this] {
      core.disown(slot_if_any());
      return true;
    });
  }
};

/// As in `multiprocessing`, a negative timeout is one of 0.
[[nodiscard]] inline Patience patience_of(PyObject* block, PyObject* timeout) {
  const bool blocks = to_bool(block, true);
  const double seconds = std::max(to_seconds(timeout), 0.0);
  return Patience(blocks ? seconds : 0);
}

/// Waits until `wait(time)` returns true, or the time is over; returns which. Each call of it is
/// short, so that a killed manager is replaced. Throws the error of a signal handler.
template <typename Wait>
bool wait_in_slices(Session& session, Patience& patience, Wait&& wait) {
  for (;;) {
    const std::chrono::nanoseconds left = patience.left();
    if (left.count() == 0) return false;
    {
      const GilRelease release;
      if (wait(std::min(left, sync::kSlice))) return true;
      session.manager().ensure();
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

/// The lock of an object that is a lock, or a recursive one. Throws TypeError.
[[nodiscard]] OpenLock& lock_of(PyObject* object);
/// Lets the class of a lock know that its last owner died. Throws what the class raises.
void tell(PyObject* lock, const sync::Death& death);
/// The same if it did.
inline void tell_death(PyObject* lock, OpenLock& open) {
  if (const std::optional<sync::Death> death = open.core.take_death()) tell(lock, *death);
}

/// A storage over a new block in which `create(block)` makes a primitive.
template <typename Create>
py::object new_primitive(std::size_t bytes, Create&& create) {
  py::object storage = new_shared_storage(std::max(bytes, sync::kProcesses), false);
  const Backing& backing = as_storage(storage)->backing();
  std::forward<Create>(create)(bytes_of(backing.arena, backing.block, Access::read_write));
  backing.arena->set_contents(backing.block, sync::kContents);
  return storage;
}

/// Adds a type of primitives to the module.
template <typename Open>
PyTypeObject* add_primitive(py::module_& module, const char* name, PyMethodDef* methods,
                            PyGetSetDef* properties = nullptr) {
  static PyGetSetDef no_properties[] = {{}};
  static PyMemberDef members[] = {kWeakReferences, kStorage, {}};
  return add_channel<Open>(module, name, methods,
                           properties != nullptr ? properties : no_properties, members);
}

}  // namespace shmtensor::python
