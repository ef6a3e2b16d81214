// Storage: bytes on a device, shared or private. A Python type of its own, small and quick to make.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "arena/address_range.hpp"
#include "bindings/support/python.hpp"
#include "os/mapped_file.hpp"
#include "session/session.hpp"

namespace shmtensor::cuda {
struct PinnedBlock;
}

namespace shmtensor::python {

/// The memory of a storage, and the object that keeps it mapped.
struct Backing {
  enum class Kind : std::uint8_t {
    block,     ///< a block of an arena, on the host or a device
    borrowed,  ///< the private memory of another Python object
    file,      ///< a user's file
  };

  std::byte* data = nullptr;
  Arena* arena = nullptr;  ///< block
  void* keeper = nullptr;  ///< borrowed: Py_buffer*; file: FileBacking*; block of GPU memory that
                           ///< another process owns: std::shared_ptr<cuda::ImportedAllocation>*
  BlockNumber block = 0;   ///< block
  Kind kind = Kind::borrowed;
  Access access = Access::read_write;
  std::int16_t device = -1;  ///< number of the GPU; -1: the host
};

struct FileBacking {
  MappedFile file;
  std::string path;
  AddressRange listed;  ///< destroyed before `file`
};

/// The Python object; `shmtensor.Storage` derives from it and adds no fields. `share_memory_` gives
/// it another backing; the first one is kept until the end, because buffers may refer to its bytes.
/// Threads: all functions below may be called at the same time on one object.
struct Storage {
  PyObject_HEAD PyObject* weak_references;
  std::uint64_t size;
  std::atomic<Backing*> current;  ///< &first, or one made by share_memory_
  Backing first;
  std::atomic<bool> is_copy;  ///< holds the copied bytes of a message's buffer
  std::atomic<bool> exposed;  ///< device: a user has the address, so any stream may use the memory
  std::atomic<cuda::PinnedBlock*> pinned;  ///< host: which streams may use, or null
  PyObject* peer;  ///< weak pointer to another library's storage (`peer.hpp`), or null

  [[nodiscard]] Backing& backing() const noexcept {
    return *current.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool read_only() const noexcept { return backing().access == Access::read_only; }
  [[nodiscard]] int device() const noexcept { return first.device; }
  /// Return true if other processes see what is written here.
  [[nodiscard]] bool shared() const noexcept { return backing().kind != Backing::Kind::borrowed; }
};

[[nodiscard]] bool is_storage(PyObject* object) noexcept;
/// The object as a storage. Throws TypeError.
[[nodiscard]] Storage& to_storage(PyObject* object);
[[nodiscard]] inline Storage* as_storage(const py::object& object) noexcept {
  return reinterpret_cast<Storage*>(object.ptr());
}

/// The strategy of new blocks unless the caller names another.
[[nodiscard]] Strategy default_strategy() noexcept;

void add_storage(py::module_& module);

}  // namespace shmtensor::python
