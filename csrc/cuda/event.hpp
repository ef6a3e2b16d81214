// Points in the work of a stream that other processes can wait for.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/gpu.hpp"

namespace shmtensor::cuda {

/// An interprocess event. Move-only. In a forked child, and once the driver has shut down, nothing
/// is destroyed. Who opened one destroys it before its maker does: the driver leaves the other
/// order undefined.
/// Threads: all members may be called at the same time.
class Event {
 public:
  static Event create(const Gpu& gpu);
  /// Of another process. Throws CudaError, which says what may be wrong.
  static Event open(const Gpu& gpu, const IpcEventHandle& handle);

  Event(Event&& other) noexcept
      : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  [[nodiscard]] const Gpu& gpu() const noexcept { return *gpu_; }
  [[nodiscard]] IpcEventHandle export_handle() const;

  /// Is at the end of what the stream has been given until now; forgets where it was before.
  void record(StreamHandle stream) const;
  /// The stream goes on behind what the event stood for at this call.
  void let_wait(StreamHandle stream) const;
  [[nodiscard]] bool is_done() const;
  void synchronize() const;

 private:
  Event(const Gpu& gpu, EventHandle handle) noexcept : gpu_(&gpu), handle_(handle) {}

  const Gpu* gpu_;
  EventHandle handle_;
};

/// What a block holds that tells other processes of an event. Written once, by the event's maker,
/// before anybody else can know the block.
struct EventDescription {
  std::uint64_t magic;
  IpcEventHandle handle;
  Uuid device;
  std::uint64_t number;  ///< of the event among those that its maker has described
  std::int32_t pid;      ///< of the maker
  std::int32_t reserved;
  std::uint64_t start_time;     ///< of that process
  std::uint64_t pid_namespace;  ///< in which its pid means something
};
inline constexpr std::uint64_t kEventMagic = 0x0074'6e65'7665'7473;  // "stevent"

/// What `then` is given from now on waits for what `first` has been given until now.
void order(const Gpu& gpu, StreamHandle first, StreamHandle then);

}  // namespace shmtensor::cuda
