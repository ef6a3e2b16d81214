// The driver's objects for device memory, one class each.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/gpu.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace shmtensor::cuda {

/// Physical memory of a device. It exists as long as any process has a handle, a mapping or a
/// descriptor of it. Move-only. In a forked child, and after the driver has shut down, nothing is
/// released: the objects belong to the parent.
class PhysicalMemory {
 public:
  PhysicalMemory() noexcept = default;
  PhysicalMemory(PhysicalMemory&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)), size_(other.size_) {}
  PhysicalMemory& operator=(PhysicalMemory other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PhysicalMemory() { reset(); }

  /// `size` is a multiple of the granularity. Throws CudaError.
  static PhysicalMemory create(const Gpu& gpu, std::uint64_t size);
  /// Imports memory that another process exported; `size` is the exporter's value. The caller keeps
  /// the descriptor.
  static PhysicalMemory import(const Gpu& gpu, const Fd& descriptor, std::uint64_t size);
  /// Returns the memory that any library has mapped at `start`.
  static PhysicalMemory at(const Gpu& gpu, DevicePtr start, std::uint64_t size);
  [[nodiscard]] static std::uint64_t granularity(const Gpu& gpu);

  /// Returns a close-on-exec descriptor that keeps the memory alive.
  [[nodiscard]] Fd export_descriptor(const Gpu& gpu) const;
  [[nodiscard]] MemoryHandle handle() const noexcept { return handle_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return handle_ != 0; }
  void reset() noexcept;

 private:
  PhysicalMemory(MemoryHandle handle, std::uint64_t size) noexcept : handle_(handle), size_(size) {}

  MemoryHandle handle_ = 0;
  std::uint64_t size_ = 0;
};

/// A range of device addresses with physical memory, with the requested access for the device;
/// peers get it when they need it (`let_access`). Move-only; behaves as PhysicalMemory does in
/// forked children.
class MappedMemory {
 public:
  MappedMemory() noexcept = default;
  MappedMemory(MappedMemory&& other) noexcept
      : start_(std::exchange(other.start_, 0)), size_(other.size_), mapped_(other.mapped_) {}
  MappedMemory& operator=(MappedMemory other) noexcept {
    std::swap(start_, other.start_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~MappedMemory() { reset(); }

  /// The address range is exactly as large as the memory: larger ranges would soon exhaust the
  /// address space.
  static MappedMemory map(const Gpu& gpu, const PhysicalMemory* pieces, std::size_t count,
                          Access access);
  static MappedMemory map(const Gpu& gpu, const PhysicalMemory& memory, Access access) {
    return map(gpu, &memory, 1, access);
  }

  [[nodiscard]] DevicePtr start() const noexcept { return start_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return start_ != 0; }
  /// All work on the memory must be complete: unmapping does not wait for it.
  void reset() noexcept;

 private:
  DevicePtr start_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t mapped_ = 0;
};

}  // namespace shmtensor::cuda
