// Events of other processes for which the default stream of this process waits. The stream never
// continues if such a process is killed before its work is complete, and a wait of the driver for
// the device would not end either: the device is stuck.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda/event.hpp"
#include "cuda/maker.hpp"

namespace shmtensor::cuda {

/// An event for which the default stream may wait.
/// Threads: all members may be called simultaneously.
class AwaitedEvent {
 public:
  /// `maker` is another process, or {} if this process made the event.
  AwaitedEvent(const Event& event, const Maker& maker) : event_(event), maker_(maker) {}
  ~AwaitedEvent();
  AwaitedEvent(const AwaitedEvent&) = delete;
  AwaitedEvent& operator=(const AwaitedEvent&) = delete;

  /// To be called before the stream waits: from now on the functions below consider the event,
  /// which must not be recorded again. Does nothing and returns false for an event of this process.
  bool start();

 private:
  friend struct AwaitedEvents;

  const Event& event_;
  const Maker maker_;
  std::uint64_t number_ = 0;  ///< 0: not started. Guarded as the list of all, as the next one is
  bool stuck_ = false;        ///< its maker had ended, and it was not complete
};

/// Throws ProducerGone if the device is stuck. Waits for nothing; a process that ended in the last
/// 10 ms may not be noticed.
void refuse_stuck(const Gpu& gpu);

/// Calls `is_done` until it returns true. Throws ProducerGone if the device is stuck meanwhile.
void poll_until(const Gpu& gpu, const std::function<bool()>& is_done);

/// Waits for the events of the device for which its default stream waits, also for those that other
/// threads add meanwhile (not endlessly). Throws ProducerGone if the device is stuck.
void wait_for_awaited(const Gpu& gpu);

/// Return true if the default stream of any device may wait. Costs a load.
[[nodiscard]] bool any_awaited() noexcept;

}  // namespace shmtensor::cuda
