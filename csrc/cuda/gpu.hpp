// The GPUs that this process sees.
#pragma once

#include <string>

#include "cuda/driver.hpp"

namespace shmtensor::cuda {

/// One device with its primary context, which all libraries share, and a stream for our copies.
/// Made at first use and never destroyed.
/// Threads: all members may be called at the same time.
class Gpu {
 public:
  /// How many this process sees. Throws CudaUnavailable.
  static int count();
  /// Throws CudaError when there is no such device.
  static const Gpu& get(int number);
  /// The device with that UUID. Throws CudaError when this process does not see it.
  static const Gpu& with_uuid(Uuid uuid);

  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] ContextHandle context() const noexcept { return context_; }
  /// Does not wait for, and is not waited for by, the streams of others.
  [[nodiscard]] StreamHandle stream() const noexcept { return stream_; }
  [[nodiscard]] bool has_virtual_memory() const noexcept { return virtual_memory_; }
  [[nodiscard]] bool has_ipc_events() const noexcept { return ipc_events_; }
  [[nodiscard]] bool can_reach(const Gpu& peer) const noexcept;

  /// Waits until everything that was started on the device is done.
  void synchronize() const;
  void synchronize_stream() const;

  explicit Gpu(int number);

 private:
  [[nodiscard]] int attribute(int name) const;

  const Driver& driver_;
  int number_;
  Uuid uuid_{};
  ContextHandle context_ = nullptr;
  StreamHandle stream_ = nullptr;
  bool virtual_memory_ = false;
  bool ipc_events_ = false;
};

/// Makes the device's context current in this thread for as long as it lives.
class Current {
 public:
  explicit Current(const Gpu& gpu);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
};

/// " on cuda:0", for the text of an error.
[[nodiscard]] std::string on(const Gpu& gpu);

/// "GPU-53494d00-0000-...", as nvidia-smi writes it.
[[nodiscard]] std::string to_text(const Uuid& uuid);

}  // namespace shmtensor::cuda
