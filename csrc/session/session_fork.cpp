// The steps of a session in a fork. docs/design/fork-and-exit.md explains them.
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/report.hpp"
#include "os/fault_point.hpp"
#include "os/unix_socket.hpp"
#include "session/session.hpp"

namespace shmtensor {
namespace {

// A fork is not refused for want of heap memory, nor may a fork handler throw.
void note(std::string& place, const char* text) noexcept {
  try {
    place = text;
  } catch (const std::bad_alloc&) {
    place = "no memory";  // short enough for the string itself
  }
}

}  // namespace

void Session::lock_for_fork() noexcept {
  creation_mutex_.lock();
  manager_.lock_for_fork();
  arenas_.lock_for_fork();
  member_.lock_for_fork();
}

void Session::prepare_child() noexcept {
  child_ = {};
  try {
    reserve_child_slot();
  } catch (const std::exception& error) {
    note(no_child_slot_, error.what());
    report("cannot assign a slot to a forked child: ", no_child_slot_.c_str());
  }
}

void Session::reserve_child_slot() {
  bool holds = false;
  arenas_.for_each_in_fork([&](Arena& arena) {
    arena.wait_for_fork();
    holds = holds || (arena.survives_fork() && arena.holds_any());
  });
  if (!holds || !member_.has_slot()) return;
  auto [ours, childs] = socket_pair();
  SHMTENSOR_FAULT_POINT("fork.before_slot");
  const Incarnation child = manager_.reserve_child_slot(ours);
  SHMTENSOR_FAULT_POINT("fork.before_bits");
  arenas_.for_each_in_fork([&](Arena& arena) {
    try {
      arena.hold_for_child(child.slot);
    } catch (const Error&) {
      if (arena.holds_any()) throw;  // otherwise the child forgets the arena
    }
  });
  child_socket_ = std::move(childs);
  child_ = child;
  SHMTENSOR_FAULT_POINT("fork.before_fork");
}

void Session::unlock_in_parent() noexcept {
  manager_.unlock_in_parent();
  arenas_.unlock_in_parent();
  child_socket_.reset();
  member_.unlock_after_fork();
  creation_mutex_.unlock();
}

bool Session::enter_as_child() noexcept {
  if (!memory_->awaits_child(child_.slot, child_.number)) return false;
  const ProcessIdentity self = this_process();
  SlotRecord& record = memory_->slot(child_.slot);
  record.start_time.store(self.start_time);
  record.pid_namespace.store(pid_namespace());
  record.pid.store(self.pid);  // stored last: it makes the identity of the child valid
  SHMTENSOR_FAULT_POINT("fork.child");
  return memory_->enter(child_.slot, SlotStatus::forking);
}

bool Session::unlock_in_child() noexcept {
  // A manager that took over cancels the slot of a child that does not enter for a long time.
  if (child_.slot != kNoSlot && !enter_as_child()) {
    note(no_child_slot_, "it was stopped before it could enter its slot");
    child_ = {};
    child_socket_.reset();
  }
  const bool holds = arenas_.unlock_in_child(child_.slot);
  manager_.unlock_in_child(std::move(child_socket_), child_.number);
  if (holds && child_.slot == kNoSlot) {
    report("a process was forked without a slot; the tensors it inherited are not protected: ",
           no_child_slot_.c_str());
  }
  member_.become(child_.slot, std::move(no_child_slot_));
  creation_mutex_.unlock();
  return holds;
}

}  // namespace shmtensor
