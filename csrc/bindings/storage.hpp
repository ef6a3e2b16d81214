// Storage: bytes on a device, shared or not. A Python type of its own, small and quick to make.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "bindings/python.hpp"
#include "os/user_file.hpp"
#include "session/session.hpp"

namespace shmtensor::python {

/// Where a storage's bytes lie and what keeps them there.
struct Backing {
  enum class Kind : std::uint8_t {
    block,     ///< a block of an arena, on the host or a device
    borrowed,  ///< the private memory of another Python object
    file,      ///< a user's file
  };

  std::byte* data = nullptr;
  Arena* arena = nullptr;  ///< block
  void* keeper = nullptr;  ///< borrowed: Py_buffer*; file: FileBacking*; block of another process's
                           ///< own memory: std::shared_ptr<cuda::Opened>*
  BlockNumber block = 0;   ///< block
  Kind kind = Kind::borrowed;
  Access access = Access::read_write;
  std::int16_t device = -1;  ///< number of the GPU; -1: the host
};

struct FileBacking {
  UserFile file;
  std::string path;
};

/// The Python object; `shmtensor.Storage` derives from it and adds no fields. `share_memory_` gives
/// it another backing; the first one stays until the end, because somebody may look at its bytes.
/// Threads: all functions below may be called at the same time on one object.
struct Storage {
  PyObject_HEAD PyObject* weak_references;
  std::uint64_t size;
  std::atomic<Backing*> current;  ///< &first, or one made by share_memory_
  Backing first;
  std::atomic<bool> exposed;  ///< device: the address left, so work on any stream may use it

  [[nodiscard]] Backing& backing() const noexcept {
    return *current.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool read_only() const noexcept { return backing().access == Access::read_only; }
  [[nodiscard]] int device() const noexcept { return first.device; }
  /// Do other processes see what is written here?
  [[nodiscard]] bool shared() const noexcept { return backing().kind != Backing::Kind::borrowed; }
};

[[nodiscard]] bool is_storage(PyObject* object) noexcept;
[[nodiscard]] inline Storage* as_storage(const py::object& object) noexcept {
  return reinterpret_cast<Storage*>(object.ptr());
}

/// How new blocks are shared unless the caller says otherwise.
[[nodiscard]] Strategy default_strategy() noexcept;

/// A new block of this process's arena. Starts a session if there is none.
[[nodiscard]] py::object new_shared_storage(std::uint64_t size, Strategy strategy, bool zeroed);

/// The same in memory of a GPU.
[[nodiscard]] py::object new_device_storage(std::uint64_t size, int device, bool zeroed);

/// A storage over memory of a user, of which a block of Strategy::in_place, with one reference that
/// is taken over, tells the others.
[[nodiscard]] py::object wrap_in_place(Arena* arena, BlockNumber block, std::byte* data, int device,
                                       std::uint64_t size);

/// Wraps the memory of an object that has the buffer protocol; nothing is copied.
[[nodiscard]] py::object borrow_storage(const py::object& exporter);

/// The storage that a handle names: the one that this process has, or a new one. Takes the handle's
/// ticket. `bytes` is the whole encoded form. Throws StaleHandle.
[[nodiscard]] py::object receive_storage(const Handle& handle, std::span<const std::byte> bytes);

/// Takes the handle's ticket for nobody: what it names is freed unless somebody else holds it or
/// has a message with it. Throws StaleHandle.
void spend_handle(const Handle& handle, std::span<const std::byte> bytes);

/// While one is open in a thread, what the thread receives keeps its tickets: the handles are of
/// something published, which others will load too.
class Peek {
 public:
  void open() noexcept;
  void close() noexcept;
  [[nodiscard]] static bool is_open() noexcept;
};

/// While one is open in a thread, what the thread sends does not wait for the device: the message
/// has an event for which its reader waits.
class AfterEvent {
 public:
  AfterEvent() noexcept;
  ~AfterEvent();
  AfterEvent(const AfterEvent&) = delete;
  AfterEvent& operator=(const AfterEvent&) = delete;
};

/// A handle of a block for one message, followed by `tail` and signed.
[[nodiscard]] py::object send_storage(const Storage& storage, Access access,
                                      std::span<const std::byte> tail);

/// A shared copy with a handle of its own. Releases the GIL while it copies.
[[nodiscard]] py::object share_copy(const Storage& storage);

/// The same block without the right to write: another object over another mapping, unless this
/// process has one already. For who has written a block and lets go of the writable object.
[[nodiscard]] py::object readonly_storage(const py::object& storage);

void add_storage(py::module_& module);

}  // namespace shmtensor::python
