// Events of other processes for which streams of this process wait. Such a stream never continues
// if the other process is killed before its work is complete, and a wait of the driver for the
// device would not end either.
#pragma once

#include <cstdint>

#include "cuda/event.hpp"
#include "cuda/maker.hpp"

namespace shmtensor::cuda {

/// An event for which a stream may wait.
/// Threads: all members may be called simultaneously.
class AwaitedEvent {
 public:
  /// `maker` is another process, or {} if this process made the event.
  AwaitedEvent(const Event& event, const Maker& maker) : event_(event), maker_(maker) {}
  ~AwaitedEvent();
  AwaitedEvent(const AwaitedEvent&) = delete;
  AwaitedEvent& operator=(const AwaitedEvent&) = delete;

  /// To be called before a stream waits: from now on `wait_for_awaited` waits for the event, which
  /// must not be recorded again. Not needed, and ignored, for an event of this process.
  void start();

 private:
  friend void wait_for_awaited(const Gpu& gpu);

  const Event& event_;
  const Maker maker_;
  std::uint64_t number_ = 0;  ///< 0: no stream waits; guarded as the list of all is
};

/// Waits for the events of the device for which streams wait at the time of this call. A wait of
/// the driver for the device, or for one of its streams, then ends. Throws ProducerGone if the
/// process that made one has ended and the event is not complete.
void wait_for_awaited(const Gpu& gpu);

}  // namespace shmtensor::cuda
