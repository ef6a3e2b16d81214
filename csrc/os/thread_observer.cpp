#include "os/thread_observer.hpp"

#include <pthread.h>

#include <vector>

#include "base/thread_annotations.hpp"
#include "os/fork_mark.hpp"
#include "os/mutex.hpp"

namespace shmtensor {
namespace {

// Never destroyed: threads end after static objects.
class Observers {
 public:
  static Observers& get() {
    static Observers* const observers = new Observers;
    return *observers;
  }

  void add(ThreadObserver& one) {
    const LockGuard guard(mutex_);
    all_.push_back(&one);
  }
  void remove(ThreadObserver& one) noexcept {
    const LockGuard guard(mutex_);
    std::erase(all_, &one);
  }
  void end_thread() noexcept {
    const LockGuard guard(mutex_);
    for (ThreadObserver* one : all_) one->end_thread();
  }

 private:
  Observers() { ::pthread_atfork(before_fork, in_parent, in_child); }

  // In a raw copy the lock may be one of its parent's.
  static void before_fork() noexcept NO_THREAD_SAFETY_ANALYSIS {
    get().locked_ = !is_raw_copy();
    if (get().locked_) get().mutex_.lock();
  }
  static void in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS {
    if (get().locked_) get().mutex_.unlock();
  }
  static void in_child() noexcept NO_THREAD_SAFETY_ANALYSIS {
    if (!get().locked_) return;
    for (ThreadObserver* one : get().all_) one->enter_child();
    get().mutex_.unlock();
  }

  Mutex mutex_;
  std::vector<ThreadObserver*> all_ GUARDED_BY(mutex_);
  bool locked_ = false;  ///< by the fork
};

struct ThreadEnd {
  ~ThreadEnd() {
    if (is_observed && !is_raw_copy()) Observers::get().end_thread();
  }
  bool is_observed = false;
};

thread_local ThreadEnd t_end;

}  // namespace

void ThreadObserver::start_observing() { Observers::get().add(*this); }

void ThreadObserver::stop_observing() noexcept {
  if (!is_raw_copy()) Observers::get().remove(*this);
}

void ThreadObserver::observe_this_thread() { t_end.is_observed = true; }

}  // namespace shmtensor
