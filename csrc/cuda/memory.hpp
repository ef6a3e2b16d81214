// The driver's objects of device memory, one class each.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/gpu.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace shmtensor::cuda {

/// Physical memory of a device: lives as long as a handle, a mapping or a descriptor of it
/// anywhere. Move-only. In a forked child, and once the driver has shut down, nothing is released:
/// what the parent has is the parent's.
class PhysicalMemory {
 public:
  PhysicalMemory() noexcept = default;
  PhysicalMemory(PhysicalMemory&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)), size_(other.size_) {}
  PhysicalMemory& operator=(PhysicalMemory&& other) noexcept;
  ~PhysicalMemory() { reset(); }

  /// `size` is a multiple of the granularity. Throws CudaError.
  static PhysicalMemory create(const Gpu& gpu, std::uint64_t size);
  /// What another process exported; `size` as it said. The descriptor stays the caller's.
  static PhysicalMemory import(const Gpu& gpu, const Fd& descriptor, std::uint64_t size);
  /// What is mapped at an address by whomever, from its start.
  static PhysicalMemory at(const Gpu& gpu, DevicePtr start, std::uint64_t size);
  [[nodiscard]] static std::uint64_t granularity(const Gpu& gpu);

  /// A descriptor that keeps the memory alive, close-on-exec.
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

/// Device addresses at which physical memory can be used, with the access that was asked for, by
/// the device itself and every peer that can reach it. Move-only; as above in forked children.
class MappedMemory {
 public:
  MappedMemory() noexcept = default;
  MappedMemory(MappedMemory&& other) noexcept
      : start_(std::exchange(other.start_, 0)), size_(other.size_), mapped_(other.mapped_) {}
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  ~MappedMemory() { reset(); }

  /// The address space is exactly as large as the memory: more would soon exhaust it.
  static MappedMemory map(const Gpu& gpu, const PhysicalMemory* pieces, std::size_t count,
                          Access access);
  static MappedMemory map(const Gpu& gpu, const PhysicalMemory& memory, Access access) {
    return map(gpu, &memory, 1, access);
  }

  [[nodiscard]] DevicePtr start() const noexcept { return start_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return start_ != 0; }
  /// Work on the memory must be done: unmapping does not wait for it.
  void reset() noexcept;

 private:
  DevicePtr start_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t mapped_ = 0;
};

}  // namespace shmtensor::cuda
