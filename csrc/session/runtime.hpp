// The sessions of this process and the settings that hold for all of them. The only instance is
// created at first use and never destroyed, since tensors may outlive every destructor.
#pragma once

#include <string>
#include <vector>

#include "arena/budget.hpp"
#include "base/atomic.hpp"
#include "os/mutex.hpp"
#include "os/spin_lock.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// The environment variable that passes the session to children and other programs.
inline constexpr const char* kSessionVariable = "SHMTENSOR_SESSION";

/// Threads: all members may be called simultaneously.
class Runtime {
 public:
  static Runtime& get();

  /// The session in which this process allocates: that of SHMTENSOR_SESSION, or a new one. Throws
  /// SessionError, OsError.
  Session& home();
  [[nodiscard]] Session* home_if_any() const noexcept { return home_.load(); }

  /// The id of the session that `home` will join; chosen now if needed, without starting the
  /// session.
  SessionId home_id();
  /// Return true if nothing but this process determines that id: no name, job or parent.
  [[nodiscard]] bool home_is_of_this_process();
  /// Return true if later runs of this program choose the same id: a name determines it, not a job
  /// or a process.
  [[nodiscard]] bool home_is_named();
  /// Sets that id if it is not chosen yet, as a parent does for its child.
  void set_home_id(const SessionId& id);

  /// Returns the session if this process is a member.
  [[nodiscard]] std::shared_ptr<Session> find(const SessionId& id) noexcept;
  /// Joins the session of a handle, as a guest if this process has another home. Throws StaleHandle
  /// if the session has ended, or has no manager and `start` starts none.
  std::shared_ptr<Session> join(const SessionId& id, Session::Start start);
  /// Leaves the sessions in which this process is a guest and holds nothing.
  void leave_unused() noexcept;

  /// Calls `ManagerClient::ensure` for all sessions, and reaps managers that have ended.
  void ensure_managers() noexcept;

  [[nodiscard]] Budget& budget() noexcept { return budget_; }

  /// Returns the number of forks from the first process to this one. An operation that began before
  /// a fork is completed by the parent.
  [[nodiscard]] std::uint32_t forks() const noexcept { return forks_.load(); }

  /// Sets the path of the manager program. Called before the first session.
  void set_program(std::string path) {
    const LockGuard guard(join_mutex_);  // another thread may be starting that program
    settings_.program = std::move(path);
  }
  /// Sets the pid of a process that may still read this one's messages after it has ended; 0 for
  /// none.
  void set_parent(std::int32_t pid) {
    const LockGuard guard(join_mutex_);
    settings_.parent = pid;
  }

 private:
  Runtime();
  [[nodiscard]] SessionId chosen_home();
  SessionId choose_home() REQUIRES(join_mutex_);
  SessionId choose_home_session(const SessionId& id) REQUIRES(join_mutex_);
  void keep(std::shared_ptr<Session> session);
  std::unique_ptr<Session> connect(const SessionId& id, Session::Start start) REQUIRES(join_mutex_);
  // The locks are held from the first function to one of the others, which the analysis cannot
  // follow.
  static void before_fork() noexcept NO_THREAD_SAFETY_ANALYSIS;
  static void in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
  static void in_child() noexcept NO_THREAD_SAFETY_ANALYSIS;

  Budget budget_;
  Atomic<std::uint32_t> forks_{0};
  bool in_raw_copy_ = false;  // the result of `before_fork`, used until the fork is complete
  Mutex join_mutex_;          // one connection to a session at a time
  Session::Settings settings_ GUARDED_BY(join_mutex_);
  SpinLock list_lock_;
  std::vector<std::shared_ptr<Session>> sessions_ GUARDED_BY(list_lock_);  // home is never left
  SessionId home_id_ GUARDED_BY(list_lock_);
  Atomic<Session*> home_{nullptr};
};

}  // namespace shmtensor
