// Events: points in the work of a stream for which other processes can wait.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// An event, interprocess unless `after_all` made it. Move-only. In a forked child, and after the
/// driver has shut down, nothing is destroyed. A process that opened an event must destroy it
/// before the process that created it does: the driver does not define the other order. Threads:
/// all members may be called simultaneously.
class Event {
 public:
  static Event create(const Gpu& gpu);
  /// An event of this process, at the end of the work that all streams of the device's primary
  /// context have been given so far. Requires `Driver::has_pinning`.
  static Event after_all(const Gpu& gpu);
  /// Opens an event of another process. Throws CudaError, with the probable reason.
  static Event open(const Gpu& gpu, const IpcEventHandle& handle);

  Event(Event&& other) noexcept
      : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  [[nodiscard]] const Gpu& gpu() const noexcept { return *gpu_; }
  [[nodiscard]] IpcEventHandle export_handle() const;

  /// Moves the event to the end of the work that the stream has been given so far.
  void record(StreamHandle stream) const;
  /// Makes the stream wait for the work that the event covers at the time of this call. Waits
  /// itself if the stream `is_capturing`.
  void let_wait(StreamHandle stream) const;
  /// The same, but returns false, and waits for nothing, if the stream `is_capturing`.
  [[nodiscard]] bool try_let_wait(StreamHandle stream) const;
  [[nodiscard]] bool is_done() const;
  void synchronize() const;

 private:
  Event(const Gpu& gpu, EventHandle handle) noexcept : gpu_(&gpu), handle_(handle) {}

  const Gpu* gpu_;
  EventHandle handle_;
};

/// The content of a block that describes an event to other processes. Written once, by the process
/// that created the event, before any other process knows the block.
struct EventDescription {
  std::uint64_t magic;
  IpcEventHandle handle;
  Uuid device;
  std::uint64_t number;  ///< of the event, among the events that its process has described
  std::int32_t pid;      ///< of the process that created it
  std::int32_t reserved;
  std::uint64_t start_time;     ///< of that process
  std::uint64_t pid_namespace;  ///< the namespace in which its pid is valid
};
inline constexpr std::uint64_t kEventMagic = 0x0074'6e65'7665'7473;  // "stevent"

/// Makes the work that `then`, of the primary context, is given from now on wait for the work that
/// `first`, of the context, has been given so far.
void order(const Gpu& gpu, ContextHandle context, StreamHandle first, StreamHandle then);

}  // namespace shmtensor::cuda
