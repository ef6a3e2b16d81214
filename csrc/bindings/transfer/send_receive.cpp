#include "bindings/transfer/send_receive.hpp"

#include <cstring>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/device_wait.hpp"
#include "bindings/support/gil.hpp"
#include "bindings/transfer/read_scope.hpp"
#include "bindings/transfer/send_scope.hpp"
#include "bindings/transfer/tensor_view.hpp"
#include "cuda/gpu.hpp"

namespace shmtensor::python {
namespace {

// A process that holds the block has its bytes mapped already, perhaps with more rights.
void map_data(Arena& arena, BlockNumber block, Access access) {
  const Strategy strategy = arena.segment().strategy();
  if (strategy == Strategy::external) access = Access::read_only;  // of its description
  if (strategy == Strategy::device || arena.local().holds(block)) return;
  static_cast<void>(bytes_of(&arena, block, access));
}

// Maps what a receiver needs: the arena, the block's bytes if there is such a block, and the table
// of the ticket's sender, which it returns.
TransitTable* map_source(Session& session, const Handle& handle,
                         const std::optional<Ticket>& ticket, PinnedArena& arena) {
  const auto attempt = [&] {
    if (!arena || arena->segment().number() != handle.arena) arena = arena_of(session, handle);
    TransitTable* const transit = with_descriptor(session.id(), [&] {
      return ticket ? &session.memory().transit(ticket->sender) : nullptr;
    });
    if (handle.block < arena->segment().capacity()) map_data(*arena, handle.block, handle.access);
    return transit;
  };
  try {
    return attempt();
  } catch (const OsError& error) {
    if (!is_address_shortage(error.code())) throw;
  }
  {
    const GilRelease release;
    session.unmap_unused();
  }
  return attempt();
}

}  // namespace

py::object receive_storage(const Handle& handle, std::span<const std::byte> bytes) {
  const std::shared_ptr<Session> session = session_of(handle);
  check_signature(session->key(), bytes);
  PinnedArena arena;
  return receive_block(*session, handle, ReadScope::ticket_of(handle), arena);
}

py::object receive_block(Session& session, const Handle& handle,
                         const std::optional<Ticket>& ticket, PinnedArena& arena) {
  // Mapping may fail for lack of address space, so it comes before the ticket is consumed. Opening
  // device memory may fail, too, but takes so long that a reader may be killed during it: the block
  // is freed then, because its ticket is consumed already.
  TransitTable* const transit = map_source(session, handle, ticket, arena);
  const auto stale = [&] {
    return StaleHandle(
        "cannot use a tensor's handle: block " + std::to_string(handle.block) + " of arena " +
        std::to_string(handle.arena) +
        " was freed; the message was loaded before, gc cancelled it for its age, or "
        "it was taken from a pipe and not loaded within 10 seconds after the last "
        "reading end of the pipe was closed; and no process has held the tensor since");
  };
  if (handle.block >= arena->segment().capacity()) throw stale();
  const NamedTicket named{handle.arena, handle.block, handle.generation, ticket.value_or(Ticket{})};
  PyObject* known = nullptr;
  bool held = false;
  {
    LocalTable::Lock lock(arena->local(), handle.block);
    held = arena->hold(lock, named, transit);
    if (held) known = find_object(lock, handle.access);
    // The object has a reference of its own, so this is not the last.
    if (known != nullptr) static_cast<void>(arena->release(lock, handle.block));
  }
  if (!held) {
    arena->unpin_and_try_free(handle.block);
    throw stale();
  }
  if (known != nullptr) return py::reinterpret_steal<py::object>(known);
  return wrap_block(arena.get(), handle.block, handle.access);
}

py::object receive_tensor(std::span<const std::byte> bytes, PyObject* dtype) {
  const Handle handle = decode(bytes);
  const py::object storage = receive_storage(handle, bytes);
  const std::size_t tail = bytes.size() - kHandleSize - kSignatureSize;
  return tensor_from_view(storage, bytes.subspan(kHandleSize, tail), dtype);
}

void cancel_handle(const Handle& handle, std::span<const std::byte> bytes) {
  // Bytes that only begin as a handle does name no session, and start no manager.
  const std::shared_ptr<Session> session = session_of(handle, Session::Start::never);
  check_signature(session->key(), bytes);
  const PinnedArena arena = arena_of(*session, handle);
  // A ticket in a record belongs to the message of a queue, which cancels it.
  if (handle.block >= arena->segment().capacity() || handle.ticket.sender == kInMessage) return;
  arena->cancel_send(handle.block, handle.generation, handle.ticket);
}

py::object send_storage(const Storage& storage, Access access, std::span<const std::byte> tail,
                        DeviceOrder order) {
  const Backing& backing = storage.backing();
  if (backing.device >= 0) {
    if (cuda::forked()) cuda::refuse_after_fork();
    if (storage.exposed.load() && order == DeviceOrder::by_wait) {
      // Work that other libraries have started on the memory ends before the message can be read.
      wait_for_device(backing.device, cuda::address_of(backing.data));
    }
  }
  const std::size_t size = kHandleSize + tail.size() + kSignatureSize;
  py::object bytes = checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  const std::span out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), size);
  Arena& arena = *backing.arena;
  const Generation generation = arena.generation(backing.block);
  const Ticket ticket = with_descriptor(
      arena.memory().id(), [&] { return SendScope::issue(arena, backing.block, generation); });
  if (arena.memory().manager_changed()) {
    const GilRelease release;
    Runtime::get().ensure_managers();
  }
  const bool read_only = access == Access::read_only || backing.access == Access::read_only;
  encode({.session = arena.memory().id(),
          .arena = arena.segment().number(),
          .block = backing.block,
          .generation = generation,
          .ticket = ticket,
          .strategy = arena.segment().strategy(),
          .access = read_only ? Access::read_only : Access::read_write},
         out.first<kHandleSize>());
  std::memcpy(out.data() + kHandleSize, tail.data(), tail.size());
  sign(arena.memory().header().key, out);
  return bytes;
}

}  // namespace shmtensor::python
