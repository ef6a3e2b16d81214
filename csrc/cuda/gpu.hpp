// The GPUs that are visible to this process.
#pragma once

#include <optional>
#include <string>

#include "cuda/driver.hpp"

namespace shmtensor::cuda {

/// One device with its primary context, which all libraries share, and a stream for copies of this
/// library. Created at first use and never destroyed.
/// Threads: all members may be called simultaneously.
class Gpu {
 public:
  static constexpr int kMost = 64;

  /// Returns the number of visible GPUs. Throws CudaUnavailable.
  static int count();
  /// Throws CudaError if there is no such device.
  static const Gpu& get(int number);
  /// Returns the device with that UUID. Throws CudaError if it is not visible to this process.
  static const Gpu& with_uuid(Uuid uuid);

  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] ContextHandle context() const noexcept { return context_; }
  /// The stream does not synchronize with the streams of other libraries.
  [[nodiscard]] StreamHandle stream() const noexcept { return stream_; }
  [[nodiscard]] bool has_virtual_memory() const noexcept { return virtual_memory_; }
  /// Return true if handles of memory and events may be exchanged with other processes.
  [[nodiscard]] bool has_ipc() const noexcept { return ipc_; }

  /// Waits until all work of the context is complete. Throws CudaError, without a call that would
  /// invalidate it, while a blocking stream of it is being captured into a graph.
  void synchronize(ContextHandle context) const;
  void synchronize() const { synchronize(context_); }
  /// Return true if the stream is being captured into a graph; of the context's legacy stream: any
  /// blocking stream of the context. Invalidates no capture.
  [[nodiscard]] bool is_capturing(ContextHandle context, StreamHandle stream) const;
  [[nodiscard]] bool is_capturing(StreamHandle stream) const {
    return is_capturing(context_, stream);
  }
  /// Throws CudaError "cannot <what>: ..." if the stream `is_capturing`.
  void refuse_capturing(ContextHandle context, StreamHandle stream, const std::string& what) const;

  explicit Gpu(int number);

 private:
  const Driver& driver_;
  int number_;
  Uuid uuid_{};
  ContextHandle context_ = nullptr;
  StreamHandle stream_ = nullptr;
  bool virtual_memory_ = false;
  bool ipc_ = false;
};

/// Makes a context of the device, if none is named the primary one, current in this thread during
/// the lifetime of the object, with calls that do not affect a capture.
class Current {
 public:
  explicit Current(const Gpu& gpu) : Current(gpu, gpu.context()) {}
  Current(const Gpu& gpu, ContextHandle context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  RelaxedCapture relaxed_;
};

/// Returns nothing if the driver is older than the attribute.
[[nodiscard]] std::optional<int> attribute_of(const Driver& driver, int number, int attribute);
[[nodiscard]] bool shares_virtual_memory(const Driver& driver, int number);
[[nodiscard]] bool has_ipc(const Driver& driver, int number);
/// Return true if a library of this process uses the device's primary context.
[[nodiscard]] bool is_used(const Driver& driver, int number) noexcept;
/// Calls `visit` with the number of each device that `is_used`. Throws CudaUnavailable.
template <typename Visit>
void for_each_used(Visit&& visit) {
  const Driver& driver = Driver::get();
  for (int number = 0; number < Gpu::count(); ++number) {
    if (is_used(driver, number)) visit(number);
  }
}
/// Return true if the device can have access to the memory of the peer.
[[nodiscard]] bool can_access_peer(const Driver& driver, int number, int peer) noexcept;

/// Returns " on cuda:0", for error texts.
[[nodiscard]] std::string on(const Gpu& gpu);

/// Returns "GPU-53494d00-0000-...", as nvidia-smi prints it.
[[nodiscard]] std::string to_text(const Uuid& uuid);

}  // namespace shmtensor::cuda
