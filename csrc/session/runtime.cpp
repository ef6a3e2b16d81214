#include "session/runtime.hpp"

#include <pthread.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "arena/address_map.hpp"
#include "base/error.hpp"
#include "cuda/driver.hpp"
#include "manager/manager_address.hpp"
#include "os/fork_mark.hpp"
#include "os/process.hpp"
#include "os/process_stat.hpp"
#include "os/program_run.hpp"
#include "session/session_name.hpp"

namespace shmtensor {

Runtime& Runtime::get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() {
  static_cast<void>(AddressMap::get());  // the handlers, which use it, must not allocate
  ::pthread_atfork(before_fork, in_parent, in_child);
}

SessionId Runtime::home_id() {
  const LockGuard guard(join_mutex_);
  return choose_home();
}

void Runtime::set_home_id(const SessionId& id) {
  const LockGuard guard(join_mutex_);
  if (!chosen_home()) choose_home_session(id);
}

bool Runtime::home_is_of_this_process() { return home_id() == session_of_run(this_process().pid); }

// Not by the variable, in which each process passes its session on.
bool Runtime::home_is_named() {
  const SessionId id = home_id();
  if (const std::string job = job_id(); !job.empty() && id == session_named(job)) return false;
  for (pid_t pid = this_process().pid; pid > 0; pid = read_stat(pid).parent) {
    if (id == session_of_run(pid)) return false;
  }
  return true;
}

SessionId Runtime::chosen_home() {
  const LockGuard guard(list_lock_);
  return home_id_;
}

SessionId Runtime::choose_home() {
  if (const SessionId id = chosen_home()) return id;
  const char* named = std::getenv(kSessionVariable);
  if (named != nullptr && *named != '\0') return choose_home_session(session_named(named));
  if (runtime_directory() != nullptr) return choose_home_session(session_named(""));
  const std::string job = job_id();
  return choose_home_session(job.empty() ? session_of_run(first_process_of_run())
                                         : session_named(job));
}

SessionId Runtime::choose_home_session(const SessionId& id) {
  {
    const LockGuard guard(list_lock_);
    home_id_ = id;
  }
  ::setenv(kSessionVariable, id.hex().c_str(), 1);
  return id;
}

Session& Runtime::home() {
  if (Session* session = home_.load(std::memory_order_acquire)) return *session;
  refuse_in_raw_copy();
  const LockGuard guard(join_mutex_);
  if (Session* session = home_.load()) return *session;
  const SessionId id = choose_home();
  std::shared_ptr<Session> session = find(id);
  if (!session) {
    session = connect(id, Session::Start::always);
    keep(session);
  }
  home_.store(session.get(), std::memory_order_release);
  return *session;
}

std::shared_ptr<Session> Runtime::find(const SessionId& id) noexcept {
  const LockGuard guard(list_lock_);
  for (const auto& session : sessions_) {
    if (session->id() == id) return session;
  }
  return nullptr;
}

std::shared_ptr<Session> Runtime::join(const SessionId& id, Session::Start start) {
  refuse_in_raw_copy();
  const LockGuard guard(join_mutex_);
  if (std::shared_ptr<Session> session = find(id)) return session;
  leave_unused();
  std::shared_ptr<Session> session = connect(id, start);
  if (!session) {
    throw StaleHandle("cannot use a tensor's handle: session " + id.hex() +
                      " has ended; its tensors no longer exist");
  }
  keep(session);
  const char* named = std::getenv(kSessionVariable);
  if (!chosen_home() && (named == nullptr || *named == '\0')) choose_home_session(id);
  if (chosen_home() == id) home_.store(session.get());
  return session;
}

std::unique_ptr<Session> Runtime::connect(const SessionId& id, Session::Start start) {
  mark_process();  // before the process shares anything
  return Session::connect(id, start, settings_, budget_);
}

void Runtime::keep(std::shared_ptr<Session> session) {
  const LockGuard guard(list_lock_);
  sessions_.push_back(std::move(session));
}

void Runtime::leave_unused() noexcept {
  if (is_raw_copy()) return;
  ensure_managers();  // so that arenas known only to this process and a killed manager are kept
  std::vector<std::shared_ptr<Session>> left;  // closed after the lock is released
  const LockGuard guard(list_lock_);
  try {
    left.reserve(sessions_.size());
  } catch (const std::bad_alloc&) {
    return;  // a later call leaves them
  }
  for (std::size_t i = 0; i < sessions_.size();) {
    // No other thread can get a reference while the list is locked.
    if (sessions_[i].get() == home_.load() || sessions_[i]->id() == home_id_ ||
        sessions_[i].use_count() > 1 || sessions_[i]->in_use()) {
      ++i;
      continue;
    }
    left.push_back(std::move(sessions_[i]));
    sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Runtime::ensure_managers() noexcept {
  if (is_raw_copy()) return;
  std::vector<std::shared_ptr<Session>> all;
  try {
    const LockGuard guard(list_lock_);
    all = sessions_;
  } catch (const std::bad_alloc&) {
    return;  // the next call, at a send for example, tries again
  }
  for (const auto& session : all) session->manager().ensure();
  reap_managers();
}

// No thread is inside a lock when the fork happens, and the child holds the blocks that it inherits
// before the parent can release them. docs/design/fork-and-exit.md explains why. In a raw copy all
// of this is skipped: the sessions belong to its parent, and children of a raw copy are raw copies,
// too.
void Runtime::before_fork() noexcept {
  Runtime& runtime = get();
  runtime.in_raw_copy_ = is_raw_copy();
  if (runtime.in_raw_copy_) return;
  runtime.join_mutex_.lock();
  runtime.list_lock_.lock();
  for (const auto& session : runtime.sessions_) session->lock_for_fork();
  AddressMap::get().lock_for_fork();
  LocalTable::stop_locking();
  for (const auto& session : runtime.sessions_) session->prepare_child();
  for (const auto& session : runtime.sessions_) session->lock_lists_for_fork();
}

void Runtime::in_parent() noexcept {
  Runtime& runtime = get();
  if (runtime.in_raw_copy_) return;
  for (const auto& session : runtime.sessions_) session->unlock_in_parent();
  LocalTable::resume_locking();
  AddressMap::get().unlock_after_fork();
  runtime.list_lock_.unlock();
  runtime.join_mutex_.unlock();
}

void Runtime::in_child() noexcept {
  Runtime& runtime = get();
  if (runtime.in_raw_copy_) return;
  mark_forked_child();
  runtime.forks_.fetch_add(1);
  cuda::note_fork();
  runtime.budget_.reset();
  Session* home = runtime.home_.load();
  // A session from which nothing was inherited is forgotten; the child can join it again.
  std::size_t kept = 0;
  for (std::shared_ptr<Session>& session : runtime.sessions_) {
    if (session->unlock_in_child()) {
      if (&runtime.sessions_[kept] != &session) runtime.sessions_[kept] = std::move(session);
      ++kept;
      continue;
    }
    if (session.get() == home) runtime.home_.store(nullptr);
    Session::never_destroy(std::move(session));
  }
  runtime.sessions_.resize(kept);
  LocalTable::resume_locking();
  AddressMap::get().unlock_after_fork();
  runtime.list_lock_.unlock();
  runtime.join_mutex_.unlock();
}

}  // namespace shmtensor
