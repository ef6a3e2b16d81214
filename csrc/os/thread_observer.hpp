// Notifies objects when a thread of this process ends.
#pragma once

namespace shmtensor {

/// An object in which something belongs to single threads.
/// Threads: all members may be called simultaneously.
class ThreadObserver {
 public:
  ThreadObserver(const ThreadObserver&) = delete;
  ThreadObserver& operator=(const ThreadObserver&) = delete;

  /// The calling thread ends. May wait for the manager, not for the GIL.
  virtual void end_thread() noexcept = 0;
  /// This process is a forked child. It has none of its parent's threads.
  virtual void enter_child() noexcept {}

 protected:
  ThreadObserver() = default;
  ~ThreadObserver() = default;

  /// From here until `stop_observing`, both functions above may be called.
  void start_observing();
  /// Waits until no thread calls them.
  void stop_observing() noexcept;
  /// Lets all observers know when the calling thread ends.
  static void observe_this_thread();
};

}  // namespace shmtensor
