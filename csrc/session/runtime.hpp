// The sessions of this process and what holds for all of them. There is one, it is made at first
// need and never destroyed: tensors may outlive every destructor.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "arena/budget.hpp"
#include "session/session.hpp"

namespace shmtensor {

/// The environment variable that names the session for children and for other programs.
inline constexpr const char* kSessionVariable = "SHMTENSOR_SESSION";

/// Threads: all members may be called at the same time.
class Runtime {
 public:
  static Runtime& get();

  /// Where this process allocates: the session of SHMTENSOR_SESSION, or a new one. Throws
  /// SessionError, OsError.
  Session& home();
  [[nodiscard]] Session* home_if_any() const noexcept { return home_.load(); }

  /// The session that `home` will join, chosen now if need be, without starting it.
  SessionId home_id();
  /// Chooses it for a process that has none yet, as the parent of a child does. Does nothing else.
  void set_home_id(const SessionId& id);

  /// The session if this process is in it.
  [[nodiscard]] std::shared_ptr<Session> find(const SessionId& id) noexcept;
  /// Joins the session of a handle, as a guest if this process has another home. Throws StaleHandle
  /// when it has ended.
  std::shared_ptr<Session> join(const SessionId& id);
  /// Leaves the sessions in which this process is a guest and holds nothing any more.
  void leave_unused() noexcept;

  /// `Session::follow_manager` for all sessions.
  void follow_managers() noexcept;

  [[nodiscard]] Budget& budget() noexcept { return budget_; }

  /// How many forks lie between the first process and this one: what was begun before one of them
  /// is the parent's to finish.
  [[nodiscard]] std::uint32_t forks() const noexcept { return forks_.load(); }

  /// Where the manager program lies; to be set before the first session.
  void set_program(std::string path) {
    const std::lock_guard guard(join_mutex_);  // another thread may be starting that program
    settings_.program = std::move(path);
  }
  /// A process that may still read what this one sends after it has ended; 0 for none.
  void set_parent(std::int32_t pid) {
    const std::lock_guard guard(join_mutex_);
    settings_.parent = pid;
  }

 private:
  Runtime();
  SessionId choose_home();
  SessionId settle_home(const SessionId& id);
  void keep(std::shared_ptr<Session> session);
  std::unique_ptr<Session> connect(const SessionId& id, Join join);
  static void before_fork() noexcept;
  static void in_parent() noexcept;
  static void in_child() noexcept;

  Budget budget_;
  std::atomic<std::uint32_t> forks_{0};
  Session::Settings settings_;
  bool in_raw_copy_ = false;  // for a fork: what `before_fork` has found
  std::mutex join_mutex_;     // one connection to a session at a time
  SessionId home_id_;         // guarded by it
  SpinLock list_lock_;
  std::vector<std::shared_ptr<Session>> sessions_;  // guarded by it; home is never left
  std::atomic<Session*> home_{nullptr};
};

}  // namespace shmtensor
