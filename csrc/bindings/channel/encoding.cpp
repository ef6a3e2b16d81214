#include "bindings/channel/encoding.hpp"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "bindings/channel/item_reader.hpp"
#include "bindings/channel/item_writer.hpp"
#include "bindings/channel/parcel.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/tensor/release.hpp"
#include "bindings/tensor/shared_memory.hpp"
#include "bindings/transfer/read_scope.hpp"
#include "bindings/transfer/tensor_view.hpp"

namespace shmtensor::python {
namespace {

// A message of one tensor needs no parcel, and bytes and text are written from the object: as
// items, their content would be copied once more.
enum Kind : std::uint8_t { kItem = 1, kTensor = 2, kPickle = 3, kBytes = 4, kText = 5, kRaw = 6 };
// The content is in a parcel.
constexpr std::uint32_t kInParcel = 0x100;

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

// The parcel is null if the message has none.
py::object decode_content(std::uint32_t kind, std::span<const std::byte> content,
                          IncomingParcel* parcel = nullptr) {
  switch (kind) {
    case kItem:
      return ItemReader(content, parcel).read();
    case kPickle:
      return loads(content);
    case kBytes:
    case kRaw:
      return to_bytes(content);
    case kText:
      return to_str(content);
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

EncodedMessage::EncodedMessage(Session& session, std::span<const std::byte> raw)
    : tickets_(session.id()) {
  place(session, kRaw, raw);
}

void EncodedMessage::encode(Session& session) {
  PyObject* const given = object_.ptr();
  if (refer_to_tensor(session)) return;
  if (PyBytes_CheckExact(given)) return place(session, kBytes, bytes_of_object(given));
  if (PyUnicode_CheckExact(given)) {
    const auto text = utf8_of(given);
    return text ? place(session, kText, std::as_bytes(std::span(*text))) : pickle(session);
  }
  if (ItemWriter(bytes_, tickets_, session).write(given)) return place(session, kItem, bytes_);
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
              .access = reader_access(tensor, *as_storage(storage)),
              .block_bytes = as_storage(storage)->size};  // the record may be in another cache
  object_ = std::move(storage);  // the tensor may be released before the message is delivered
  return true;
}

void EncodedMessage::pickle(Session& session) {
  static_cast<void>(tickets_.discard());  // of what was encoded before
  scope_.emplace(tickets_).open();
  const std::uint64_t before = exchange_copied_bytes(0);  // of a message around this one
  PyObject* const result = PyObject_CallOneArg(dumps_, object_.ptr());
  copied_bytes_ = exchange_copied_bytes(before);
  py::object pickled = checked(result);
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
  const std::uint64_t bytes = parcel_->arena->size(parcel_->number);
  message_ = {.kind = kind | kInParcel,
              .content = {},
              .block = *parcel_,
              .block_bytes = bytes + tickets_.bytes(),
              .copied_bytes = bytes + copied_bytes_};
}

bool is_raw(const Incoming& message) noexcept { return (message.kind & ~kInParcel) == kRaw; }

py::object decode_message(Session& session, Incoming& message, Readers readers) {
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
  IncomingParcel parcel(session, std::move(message.block), shared);
  const std::span<const std::byte> inside = parcel.content();
  const std::uint32_t kind = message.kind & ~kInParcel;
  if (kind != kPickle) return decode_content(kind, inside, &parcel);
  ReadScope scope(session.id(), parcel.tickets(), shared);
  scope.open();
  py::object object = decode_content(kind, inside);
  scope.close();
  return object;
}

void discard_message(Session& session, Incoming message) {
  if ((message.kind & kInParcel) == 0 || !message.block) return;
  static_cast<void>(IncomingParcel(session, std::move(message.block), false).content());
}

void add_encoding(py::module_& module) {
  module.def("register_picklers", [](py::object dumps, py::object for_many, py::object loads) {
    g_dumps = dumps.release().ptr();
    g_broadcast_dumps = for_many.release().ptr();
    g_loads = loads.release().ptr();
  });
}

}  // namespace shmtensor::python
