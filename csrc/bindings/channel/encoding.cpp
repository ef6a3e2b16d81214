#include "bindings/channel/encoding.hpp"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/first_indexes.hpp"
#include "bindings/channel/incoming_tensors.hpp"
#include "bindings/channel/parcel.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/transfer/read_scope.hpp"
#include "bindings/transfer/tensor_view.hpp"

namespace shmtensor::python {
namespace {

enum Kind : std::uint8_t { kItem = 1, kTensor = 2, kPickle = 3, kBytes = 4, kText = 5 };
// The content is in a parcel.
constexpr std::uint32_t kInParcel = 0x100;

/// Return true if a handle without a pickle describes the tensor: in host memory of the session,
/// of a dtype that has a code.
bool is_plain(const Tensor& tensor, const Storage& storage, const Session& session) {
  const Backing& backing = storage.backing();
  return tensor.dtype_code != kNoCode && backing.kind == Backing::Kind::block &&
         backing.device < 0 && backing.arena->memory().id() == session.id();
}

Access reader_access(const Tensor& tensor, const Storage& storage) noexcept {
  return tensor.read_only ? Access::read_only : storage.backing().access;
}

/// Return true for an object that the pickler, too, sends once if it occurs again.
bool is_sent_once(PyObject* item) {
  return PyUnicode_CheckExact(item) || PyBytes_CheckExact(item) || is_tensor(item);
}

/// Return true if all items are of types that need no pickle. Asked before the first item is
/// encoded, since a ticket is issued for each tensor.
bool may_be_flat(PyObject* items) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, i);
    if (item != Py_None && !PyBool_Check(item) && !PyLong_CheckExact(item) &&
        !PyFloat_CheckExact(item) && !is_sent_once(item)) {
      return false;
    }
  }
  return true;
}

PyObject* g_dumps = nullptr;
PyObject* g_broadcast_dumps = nullptr;
PyObject* g_loads = nullptr;

py::object loads(std::span<const std::byte> content) {
  // The unpickler reads from the memory of the message, and copies what it keeps.
  const py::object view = checked(
      PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(content.data())),
                              static_cast<Py_ssize_t>(content.size()), PyBUF_READ));
  py::object object = checked(PyObject_CallOneArg(g_loads, view.ptr()));
  view.attr("release")();
  return object;
}

// The tensors of an item are null if it has no parcel.
py::object decode_content(std::uint32_t kind, std::span<const std::byte> content,
                          IncomingTensors* tensors = nullptr) {
  const auto* text = reinterpret_cast<const char*>(content.data());
  const auto size = static_cast<Py_ssize_t>(content.size());
  switch (kind) {
    case kItem:
      return ItemReader(content, tensors).read();
    case kPickle:
      return loads(content);
    case kBytes:
      return checked(PyBytes_FromStringAndSize(text, size));
    case kText:
      return checked(PyUnicode_DecodeUTF8(text, size, nullptr));
    default:
      throw StaleHandle("a message of a queue is damaged, or of another version of shmtensor");
  }
}

}  // namespace

PyObject* broadcast_dumps() noexcept { return g_broadcast_dumps; }

EncodedMessage::EncodedMessage(Session& session, py::object object, PyObject* dumps,
                               Readers readers)
    : dumps_(dumps != nullptr ? dumps : g_dumps),
      object_(std::move(object)),
      readers_(readers),
      tickets_(session.id()) {
  encode(session);
}

void EncodedMessage::encode(Session& session) {
  PyObject* const given = object_.ptr();
  if (refer_to_tensor(session)) return;
  if (PyBytes_CheckExact(given)) return place(session, kBytes, bytes_of_object(given));
  if (PyUnicode_CheckExact(given)) {
    Py_ssize_t size = 0;
    if (const char* text = PyUnicode_AsUTF8AndSize(given, &size)) {
      return place(session, kText, std::as_bytes(std::span(text, static_cast<std::size_t>(size))));
    }
    PyErr_Clear();  // it has surrogates
    return pickle(session);
  }
  if (append_item(given, session, true)) return place(session, kItem, bytes_);
  pickle(session);
}

EncodedMessage::~EncodedMessage() {
  if (tickets_.size() != 0 && tickets_.discard() && parcel_) parcel_.set_contents({});
}

void EncodedMessage::delivered() noexcept {
  tickets_.delivered();
  if (scope_) scope_->delivered();
}

bool EncodedMessage::refer_to_tensor(const Session& session) {
  if (!is_tensor(object_.ptr())) return false;
  const auto& tensor = *reinterpret_cast<const Tensor*>(object_.ptr());
  py::object storage = storage_of(tensor);
  if (!is_plain(tensor, *as_storage(storage), session)) return false;
  const Backing& backing = as_storage(storage)->backing();
  const ViewBytes view(tensor);
  if (view.get().size() > MessageEntry::kContent) return false;
  bytes_.assign(view.get().begin(), view.get().end());
  message_ = {.kind = kTensor,
              .content = bytes_,
              .block = {backing.arena, backing.block},
              .access = reader_access(tensor, *as_storage(storage))};
  object_ = std::move(storage);  // the tensor may be released before the message is delivered
  return true;
}

void EncodedMessage::append(const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), from, from + size);
}

// Returns false for an object that must be pickled; what was appended is of no use then.
bool EncodedMessage::append_item(PyObject* object, const Session& session, bool may_nest) {
  const auto tag = [this](ItemTag value) { append(&value, 1); };
  if (object == Py_None) return tag(ItemTag::none), true;
  if (object == Py_True) return tag(ItemTag::yes), true;
  if (object == Py_False) return tag(ItemTag::no), true;
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    tag(ItemTag::integer);
    append(&value, sizeof value);
    return true;
  }
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    tag(ItemTag::real);
    append(&value, sizeof value);
    return true;
  }
  if (PyBytes_CheckExact(object)) {
    return append_sized(ItemTag::bytes, bytes_of_object(object)), true;
  }
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(object, &size);
    if (utf8 == nullptr) return PyErr_Clear(), false;
    const std::span text(utf8, static_cast<std::size_t>(size));
    return append_sized(ItemTag::text, std::as_bytes(text)), true;
  }
  if (is_tensor(object)) {
    const auto& tensor = *reinterpret_cast<const Tensor*>(object);
    const py::object storage = storage_of(tensor);
    if (!is_plain(tensor, *as_storage(storage), session)) return false;
    return append_tensor(tensor, *as_storage(storage)), true;
  }
  if (!may_nest) return false;
  if (PyTuple_CheckExact(object)) return append_sequence(ItemTag::tuple, object, session);
  if (!PyList_CheckExact(object)) return false;
  // A copy: another thread may change the list.
  const py::object items = checked(PyList_AsTuple(object));
  return append_sequence(ItemTag::list, items.ptr(), session);
}

bool EncodedMessage::append_sequence(ItemTag tag, PyObject* items, const Session& session) {
  if (!may_be_flat(items)) return false;
  const auto count = static_cast<std::uint64_t>(PyTuple_GET_SIZE(items));
  append(&tag, 1);
  append(&count, sizeof count);
  FirstIndexes first(items);
  for (std::uint64_t i = 0; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items, static_cast<Py_ssize_t>(i));
    if (const std::uint64_t found = is_sent_once(item) ? first.add(i) : i; found != i) {
      constexpr ItemTag again = ItemTag::again;
      append(&again, sizeof again);
      append(&found, sizeof found);
    } else if (!append_item(item, session, false)) {
      return false;
    }
  }
  return true;
}

void EncodedMessage::append_tensor(const Tensor& tensor, const Storage& storage) {
  const Backing& backing = storage.backing();
  Arena& arena = *backing.arena;
  tickets_.add(arena, backing.block, arena.generation(backing.block));
  const ViewBytes view(tensor);
  const TensorItem item{
      .strategy = static_cast<std::uint8_t>(arena.segment().strategy()),
      .access = reader_access(tensor, storage),
      .view = static_cast<std::uint16_t>(view.get().size()),
  };
  constexpr ItemTag tag = ItemTag::tensor;
  append(&tag, sizeof tag);
  append(&item, sizeof item);
  append(view.get().data(), view.get().size());
}

void EncodedMessage::append_sized(ItemTag tag, std::span<const std::byte> content) {
  const std::uint64_t size = content.size();
  append(&tag, 1);
  append(&size, sizeof size);
  append(content.data(), content.size());
}

void EncodedMessage::pickle(Session& session) {
  static_cast<void>(tickets_.discard());  // of what was encoded before
  scope_.emplace(tickets_).open();
  py::object pickled = checked(PyObject_CallOneArg(dumps_, object_.ptr()));
  scope_->close();
  if (!PyBytes_CheckExact(pickled.ptr())) throw py::type_error("the pickler must return bytes");
  if (readers_ == Readers::many && !scope_->is_empty()) {
    throw py::type_error(
        "more than one process may receive the message, so it cannot contain a tensor of another "
        "session: copy it into a tensor of this session");
  }
  object_ = std::move(pickled);
  place(session, kPickle, bytes_of_object(object_.ptr()));
}

void EncodedMessage::place(Session& session, std::uint32_t kind,
                           std::span<const std::byte> content) {
  const bool has_tickets = tickets_.size() != 0 || (scope_ && !scope_->is_empty());
  if (!has_tickets && content.size() <= MessageEntry::kContent) {
    message_ = {.kind = kind, .content = content, .block = {}};
    return;
  }
  parcel_ = make_parcel(session, content, tickets_);
  message_ = {.kind = kind | kInParcel, .content = {}, .block = *parcel_};
}

py::object decode_message(Session& session, Incoming message, Readers readers) {
  const std::span<const std::byte> content(message.content.data(), message.size);
  if (message.kind == kTensor && message.block) {
    const Block block = message.block.release();
    return tensor_from_view(adopt_block(block.arena, block.number, message.access), content,
                            nullptr);
  }
  if ((message.kind & kInParcel) == 0 || !message.block) {
    return decode_content(message.kind, content);
  }
  const bool shared = readers == Readers::many;
  IncomingParcel parcel(std::move(message.block), shared);
  const std::span<const std::byte> inside = parcel.content();
  const std::uint32_t kind = message.kind & ~kInParcel;
  if (kind != kPickle) {
    IncomingTensors tensors(session, parcel.tickets(), shared);
    return decode_content(kind, inside, &tensors);
  }
  ReadScope scope(session.id(), parcel.tickets(), shared);
  scope.open();
  py::object object = decode_content(kind, inside);
  scope.close();
  return object;
}

void discard_message(Incoming message) {
  if ((message.kind & kInParcel) == 0 || !message.block) return;
  static_cast<void>(IncomingParcel(std::move(message.block), false).content());
}

void add_encoding(py::module_& module) {
  module.def("register_broadcast_pickler", [](const py::object& dumps) {
    g_broadcast_dumps = py::object(dumps).release().ptr();
  });
  module.def("register_queue_pickler", [](const py::object& dumps, const py::object& loads) {
    g_dumps = py::object(dumps).release().ptr();
    g_loads = py::object(loads).release().ptr();
  });
}

}  // namespace shmtensor::python
