// The steps of a session in a fork. docs/design/fork-and-exit.md explains them.
#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "arena/address_map.hpp"
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
  connection_mutex_.lock();
  {
    const LockGuard guard(registry_lock_);
    for (auto& [number, arena] : arenas_) {
      arena->pin();
      arena->link_for_fork(std::exchange(forked_, arena.get()));
    }
  }
  for (Arena* arena = forked_; arena != nullptr; arena = arena->next_in_fork()) {
    arena->lock_for_fork();
  }
  member_.lock_for_fork();
}

void Session::unlock_forked() noexcept {
  while (forked_ != nullptr) {
    Arena& arena = *forked_;
    forked_ = arena.unlink_after_fork();
    arena.unlock_after_fork();
    arena.unpin();  // last: another thread may unmap it now
  }
}

void Session::prepare_child() noexcept {
  child_slot_ = kNoSlot;
  try {
    reserve_child_slot();
  } catch (const std::exception& error) {
    note(no_child_slot_, error.what());
    report("cannot assign a slot to a forked child: ", no_child_slot_.c_str());
  }
}

void Session::reserve_child_slot() {
  bool holds = false;
  for (Arena* arena = forked_; arena != nullptr; arena = arena->next_in_fork()) {
    arena->wait_for_fork();
    holds = holds || (arena->survives_fork() && arena->holds_any());
  }
  if (!holds || !member_.has_slot()) return;
  auto [ours, childs] = socket_pair();
  SHMTENSOR_FAULT_POINT("fork.before_slot");
  const Reply reply = ask(message_for(MessageKind::fork, id()), ours.get());
  SHMTENSOR_FAULT_POINT("fork.before_bits");
  const auto slot = static_cast<SlotNumber>(reply.message.slot);
  for (Arena* arena = forked_; arena != nullptr; arena = arena->next_in_fork()) {
    try {
      arena->hold_for_child(slot);
    } catch (const Error&) {
      if (arena->holds_any()) throw;  // otherwise the child forgets the arena
    }
  }
  child_socket_ = std::move(childs);
  child_incarnation_ = reply.message.incarnation;
  child_slot_ = slot;
  SHMTENSOR_FAULT_POINT("fork.before_fork");
}

void Session::unlock_in_parent() noexcept {
  notices_lock_.unlock();
  registry_lock_.unlock();
  child_socket_.reset();
  member_.unlock_after_fork();
  unlock_forked();
  connection_mutex_.unlock();
  creation_mutex_.unlock();
  send_notices();
}

bool Session::enter_as_child() noexcept {
  if (!memory_->awaits_child(child_slot_, child_incarnation_)) return false;
  const ProcessIdentity self = this_process();
  SlotRecord& record = memory_->slot(child_slot_);
  record.start_time.store(self.start_time);
  record.pid_namespace.store(pid_namespace());
  record.pid.store(self.pid);  // stored last: it makes the identity of the child valid
  SHMTENSOR_FAULT_POINT("fork.child");
  return memory_->enter(child_slot_, SlotStatus::forking);
}

bool Session::unlock_in_child() noexcept {
  // A manager that took over cancels the slot of a child that does not enter for a long time.
  if (child_slot_ != kNoSlot && !enter_as_child()) {
    note(no_child_slot_, "it was stopped before it could enter its slot");
    child_slot_ = kNoSlot;
    child_socket_.reset();
  }
  // An arena that another thread added during the fork may be locked by that thread, which does not
  // exist in the child; the child holds none of its blocks. The same applies to an arena in which
  // this process has no plane for its bits.
  for (auto& [number, arena] : arenas_) {
    const bool added = !arena->in_fork();
    const bool mute = child_slot_ != kNoSlot && arena->survives_fork() &&
                      !arena->segment().has_plane(child_slot_);
    if (!added && !mute) continue;
    AddressMap::get().forget_in_child(*arena);
    static_cast<void>(arena.release());
  }
  std::erase_if(arenas_, [](const auto& pair) { return pair.second == nullptr; });
  connection_.close();
  std::ranges::fill(current_, nullptr);
  bool holds = false;
  for (Arena* arena = forked_; arena != nullptr; arena = arena->next_in_fork()) {
    holds = holds || (arena->survives_fork() && arena->holds_any());
    arena->disown();
  }
  unlock_forked();
  if (child_slot_ != kNoSlot) {
    connection_ = Connection(std::move(child_socket_));
    connection_.tell(message_for(MessageKind::child, id()));
    incarnation_ = child_incarnation_;
  } else if (holds) {
    report("a process was forked without a slot; the tensors it inherited are not protected: ",
           no_child_slot_.c_str());
  }
  notices_.clear();  // the parent sends these
  notices_lock_.unlock();
  member_.become(child_slot_, std::move(no_child_slot_));
  registry_lock_.unlock();
  // A recursive mutex stores the thread id of its owner, which is different in the child.
  std::construct_at(&connection_mutex_);
  creation_mutex_.unlock();
  return holds;
}

}  // namespace shmtensor
