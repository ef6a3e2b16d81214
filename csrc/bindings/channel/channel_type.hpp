// The types of queues, broadcasts and readers of broadcasts: one layout, one life.
#pragma once

#include "bindings/support/python.hpp"
// Python's headers come before all others.
#include <memory>
#include <utility>

#include "bindings/channel/late_errors.hpp"
#include "bindings/support/gil.hpp"
#include "channel/broadcast.hpp"
#include "channel/queue.hpp"

namespace shmtensor::python {

/// What an object needs of its channel in this process. Each class that derives from this one has
/// the queue, the broadcast or the reader as `core`.
struct OpenChannel {
  OpenChannel() = default;
  virtual ~OpenChannel() = default;
  /// Return true if this process must hold the block until it ends, although the object ends.
  [[nodiscard]] virtual bool keeps_block() const noexcept { return false; }
  OpenChannel(const OpenChannel&) = delete;
  OpenChannel& operator=(const OpenChannel&) = delete;
};

struct OpenQueue final : OpenChannel {
  static constexpr auto kName = "queue";
  static constexpr auto kChannel = "queue";
  [[noreturn]] static void throw_closed();

  OpenQueue(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)), core(*session, block) {}

  std::shared_ptr<Session> session;
  py::object claims;  ///< storage with the word for the positions of messages; may be null
  Queue core;
  LateErrors late_errors;
};

struct OpenBroadcast : OpenChannel {
  static constexpr auto kName = "broadcast";
  static constexpr auto kChannel = "broadcast";
  [[noreturn]] static void throw_closed() {
    throw py::value_error("the broadcast is closed in this process");
  }

  OpenBroadcast(std::shared_ptr<Session> joined, const Block& block)
      : session(std::move(joined)), core(*session, block) {}

  std::shared_ptr<Session> session;
  Broadcast core;
};

/// A broadcast that keeps its newest message.
struct OpenLatest final : OpenBroadcast {
  static constexpr auto kName = "latest value";
  using OpenBroadcast::OpenBroadcast;
};

/// To be made without the GIL, since joining, as leaving, may wait for the manager.
struct OpenReader final : OpenChannel {
  static constexpr auto kName = "reader";
  static constexpr auto kChannel = "broadcast";
  [[noreturn]] static void throw_closed() { throw py::value_error("the reader is closed"); }

  explicit OpenReader(Broadcast& broadcast) : core(broadcast) {}
  ~OpenReader() override {
    const GilRelease release;
    core.leave();
  }

  BroadcastReader core;
};

/// The Python object; the classes of the package derive from its types and add no fields.
/// Threads: all functions may be called at the same time on one object.
struct ChannelObject {
  PyObject_HEAD PyObject* weak_references;
  PyObject* source;   ///< the storage, which keeps the block held; the broadcast of a reader
  OpenChannel* open;  ///< null until `__init__`
  PyObject* dumps;    ///< the pickler of `put` if it is not that of all queues, or broadcasts
};

[[nodiscard]] inline ChannelObject& channel_of(PyObject* self) noexcept {
  return *reinterpret_cast<ChannelObject*>(self);
}

[[noreturn]] void throw_without_init(const char* name);

/// The channel of an object, open or closed. Throws RuntimeError if a subclass has not called
/// `__init__`.
template <typename Open>
[[nodiscard]] Open& opened(PyObject* self) {
  OpenChannel* const open = channel_of(self).open;
  if (open == nullptr) throw_without_init(Open::kName);
  return static_cast<Open&>(*open);
}

/// The channel, to be used through this object. Throws ValueError if the object is closed.
template <typename Open>
[[nodiscard]] Open& usable(PyObject* self) {
  Open& open = opened<Open>(self);
  if (open.core.is_closed()) Open::throw_closed();
  return open;
}

void add_channels(py::module_& module);

}  // namespace shmtensor::python
