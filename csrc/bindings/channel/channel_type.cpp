#include "bindings/channel/channel_type.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bindings/channel/broadcast_methods.hpp"
#include "bindings/channel/channel_methods.hpp"
#include "bindings/channel/object_type.hpp"
#include "bindings/channel/pipe_hold.hpp"
#include "bindings/channel/queue_methods.hpp"
#include "bindings/storage/allocation.hpp"

namespace shmtensor::python {
namespace {

PyTypeObject* g_broadcast_type = nullptr;

constexpr const char* kOnFull[] = {"block", "drop_oldest", "raise", "keep_newest"};  // by OnFull

py::object new_queue_storage(std::uint64_t limit, std::uint64_t max_bytes, bool counts_copies,
                             bool redeliver, std::string_view label) {
  py::object storage = new_shared_storage(Queue::bytes(redeliver), false);
  const Backing& backing = as_storage(storage)->backing();
  Queue::create({backing.arena, backing.block}, {.limit = limit,
                                                 .max_bytes = max_bytes,
                                                 .counts_copies = counts_copies,
                                                 .redelivers = redeliver,
                                                 .label = label_of(label)});
  return storage;
}

py::object new_broadcast_storage(std::uint64_t limit, std::uint64_t max_bytes,
                                 std::string_view on_full, std::string_view label) {
  const auto* const found =
      std::ranges::find_if(kOnFull, [on_full](const char* name) { return on_full == name; });
  if (limit == 0 || limit > BroadcastHeader::kMostMessages || found == std::end(kOnFull)) {
    throw py::value_error("no such broadcast");
  }
  py::object storage = new_shared_storage(BroadcastHeader::bytes(limit), false);
  const Backing& backing = as_storage(storage)->backing();
  Broadcast::create({backing.arena, backing.block},
                    {.limit = limit,
                     .max_bytes = max_bytes,
                     .on_full = static_cast<OnFull>(found - std::begin(kOnFull)),
                     .label = label_of(label)});
  return storage;
}

const char* on_full_of(const Broadcast& broadcast) {
  const auto policy = static_cast<std::size_t>(broadcast.on_full());
  return kOnFull[std::min(policy, std::size(kOnFull) - 1)];
}

template <typename Open>
constexpr PyGetSetDef kMaxsize{"maxsize", call_core<Open, &decltype(Open::core)::limit>, nullptr,
                               "Number of messages that fit; 0: no limit.", nullptr};
template <typename Open>
py::object max_bytes_of(const decltype(Open::core)& core) {
  return core.max_bytes() == 0 ? py::none() : py::object(py::int_(core.max_bytes()));
}
template <typename Open>
constexpr PyGetSetDef kMaxBytes{"max_bytes", call_core<Open, max_bytes_of<Open>>, nullptr,
                                "It is full while unread messages have so many; None: no limit.",
                                nullptr};
template <typename Open>
constexpr PyGetSetDef kClosed{"closed", call_core<Open, &decltype(Open::core)::is_closed>, nullptr,
                              "True after `close` in this process.", nullptr};
template <typename Open>
constexpr PyGetSetDef kIsShutdown{"is_shutdown",
                                  call_core<Open, &decltype(Open::core)::is_shut_down>, nullptr,
                                  "True after `shutdown` in any process.", nullptr};

PyGetSetDef g_queue_properties[] = {
    kMaxsize<OpenQueue>,
    kMaxBytes<OpenQueue>,
    kClosed<OpenQueue>,
    kIsShutdown<OpenQueue>,
    {"redeliver", call_core<OpenQueue, &Queue::redelivers>, nullptr,
     "True if the messages of a killed consumer are received again.", nullptr},
    {},
};
PyGetSetDef g_broadcast_properties[] = {
    kMaxsize<OpenBroadcast>,
    kMaxBytes<OpenBroadcast>,
    kClosed<OpenBroadcast>,
    kIsShutdown<OpenBroadcast>,
    {"on_full", call_core<OpenBroadcast, on_full_of>, nullptr,
     "What `put` does if the slowest reader is `maxsize` messages behind.", nullptr},
    {"readers", call_core<OpenBroadcast, &Broadcast::readers>, nullptr,
     "Number of readers, in all processes.", nullptr},
    {},
};
PyGetSetDef g_reader_properties[] = {
    kClosed<OpenReader>,
    {"missed", call_core<OpenReader, &BroadcastReader::missed>, nullptr,
     "Number of messages that were dropped before this reader got them.", nullptr},
    {},
};

PyMemberDef g_members[] = {
    kWeakReferences,
    kStorage,
    {"_dumps", T_OBJECT, offsetof(ChannelObject, dumps), 0, nullptr},
    {},
};
PyMemberDef g_reader_members[] = {kWeakReferences, {}};
PyMemberDef g_latest_members[] = {kWeakReferences, kStorage, {}};

}  // namespace

template <>
std::unique_ptr<OpenReader> open_channel(PyObject* source) {
  if (source == nullptr || PyObject_TypeCheck(source, g_broadcast_type) == 0) {
    throw py::type_error("a reader needs a broadcast: call its method reader()");
  }
  Broadcast& core = usable<OpenBroadcast>(source).core;
  const GilRelease release;
  return std::make_unique<OpenReader>(core);
}

void channel_dealloc(PyObject* self) {
  ChannelObject& object = channel_of(self);
  if (object.weak_references != nullptr) PyObject_ClearWeakRefs(self);
  const bool keeps_block = object.open != nullptr && object.open->keeps_block();
  delete object.open;
  if (!keeps_block) Py_XDECREF(object.source);
  Py_XDECREF(object.dumps);
  free_object(self);
}

void throw_without_init(const char* name) {
  throw std::runtime_error(std::string("__init__ was not called: a subclass of a ") + name +
                           " calls super().__init__()");
}

void add_channels(py::module_& module) {
  add_channel<OpenQueue>(module, "shmtensor._core.QueueBase", g_queue_methods, g_queue_properties,
                         g_members);
  g_broadcast_type =
      add_channel<OpenBroadcast>(module, "shmtensor._core.BroadcastBase", g_broadcast_methods,
                                 g_broadcast_properties, g_members);
  add_channel<OpenReader>(module, "shmtensor._core.BroadcastReaderBase", g_reader_methods,
                          g_reader_properties, g_reader_members);
  add_channel<OpenLatest>(module, "shmtensor._core.LatestBase", g_latest_methods,
                          g_latest_properties, g_latest_members);
  module.def("new_queue_storage", &new_queue_storage);
  module.def("new_broadcast_storage", &new_broadcast_storage);
  add_pipes(module);
  add_queue_exceptions(module);
}

}  // namespace shmtensor::python
