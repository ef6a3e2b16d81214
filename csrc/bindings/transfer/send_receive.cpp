#include "bindings/transfer/send_receive.hpp"

#include <memory>
#include <string>
#include <variant>

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

// A process that holds the block may have its bytes mapped with other rights. The owner has all.
void map_data(Arena& arena, BlockNumber block, Access access) {
  const Strategy strategy = arena.segment().strategy();
  if (strategy == Strategy::external) access = Access::read_only;  // of its description
  if (strategy == Strategy::device || (arena.owned() && arena.local().holds(block))) return;
  static_cast<void>(bytes_of(&arena, block, access));
}

// Maps what a receiver needs: the arena, the block's bytes if there is such a block, and the table
// of the ticket's sender, which it returns.
TransitTable* map_source(Session& session, const TensorReference& reference, const Ticket* ticket,
                         PinnedArena& arena) {
  const auto attempt = [&] {
    if (!arena || arena->segment().number() != reference.arena) {
      arena = arena_of(session, reference);
    }
    TransitTable* const transit =
        ticket != nullptr ? &session.memory().transit(ticket->sender) : nullptr;
    if (reference.block < arena->segment().capacity()) {
      map_data(*arena, reference.block, reference.access);
    }
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

py::object receive_signed(TensorReference reference, std::span<const std::byte> handle) {
  const std::shared_ptr<Session> session = session_of(reference.session);
  check_signature(session->key(), handle);
  reference.ticket = ReadScope::ticket_of(reference);
  PinnedArena arena;
  return receive_storage(*session, reference, arena);
}

}  // namespace

py::object receive_storage(Session& session, const TensorReference& reference, PinnedArena& arena) {
  const auto* const ticket = std::get_if<Ticket>(&reference.ticket);
  const BlockNumber block = reference.block;
  // Mapping may fail for lack of address space, so it comes before the ticket is consumed. Opening
  // device memory may fail, too, but takes so long that a reader may be killed during it: the block
  // is freed then, because its ticket is consumed already.
  TransitTable* const transit = map_source(session, reference, ticket, arena);
  const auto stale = [&] {
    return StaleHandle("cannot use a tensor's handle: block " + std::to_string(block) +
                       " of arena " + std::to_string(reference.arena) +
                       " was freed; the message was loaded before, gc cancelled it for its age, or "
                       "the parent of this process ended before its arguments were loaded; and no "
                       "process has held the tensor since");
  };
  if (block >= arena->segment().capacity()) throw stale();
  const NamedTicket named{reference.arena, block, reference.generation,
                          ticket != nullptr ? *ticket : Ticket{}};
  PyObject* known = nullptr;
  bool held = false;
  {
    LocalTable::Lock lock(arena->local(), block);
    held = arena->hold(lock, named, transit);
    if (held) known = find_object(*arena, lock, reference.access);
    // The object has a reference of its own, so this is not the last.
    if (known != nullptr) static_cast<void>(arena->release(lock, block));
  }
  if (!held) {
    arena->unpin_and_try_free(block);
    throw stale();
  }
  if (known != nullptr) return py::reinterpret_steal<py::object>(known);
  return wrap_block(arena.get(), block, reference.access);
}

py::object receive_storage(std::span<const std::byte> handle) {
  return receive_signed(decode(handle), handle);
}

py::object receive_tensor(std::span<const std::byte> handle, PyObject* dtype) {
  const TensorReference reference = decode(handle);
  return tensor_from_view(receive_signed(reference, handle), reference.view, dtype);
}

void cancel_handle(std::span<const std::byte> handle) {
  const TensorReference reference = decode(handle);
  // Bytes that only begin as a handle does name no session, and start no manager.
  const std::shared_ptr<Session> session = session_of(reference.session, Session::Start::never);
  check_signature(session->key(), handle);
  const PinnedArena arena = arena_of(*session, reference);
  // A ticket in a record belongs to the message of a queue, which cancels it.
  const auto* const ticket = std::get_if<Ticket>(&reference.ticket);
  if (ticket == nullptr || reference.block >= arena->segment().capacity()) return;
  arena->cancel_send(reference.block, reference.generation, *ticket);
}

py::object send_storage(const Storage& storage, Access access, std::span<const std::byte> view,
                        DeviceOrder order) {
  const Backing& backing = storage.backing();
  if (backing.device >= 0) {
    if (cuda::forked()) cuda::refuse_after_fork();
    if (storage.exposed.load() && order == DeviceOrder::by_wait) {
      // Work that other libraries have started on the memory ends before the message can be read.
      wait_for_device(backing.device, cuda::address_of(backing.data));
    }
  }
  const std::size_t size = handle_size(view.size());
  py::object bytes = checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  const std::span out(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), size);
  Arena& arena = *backing.arena;
  const Generation generation = arena.generation(backing.block);
  const TicketSource ticket = SendScope::issue(arena, backing.block, generation);
  if (arena.memory().manager_changed()) {
    const GilRelease release;
    Runtime::get().ensure_managers();
  }
  const bool read_only = access == Access::read_only || backing.access == Access::read_only;
  encode({.session = arena.memory().id(),
          .arena = arena.segment().number(),
          .block = backing.block,
          .generation = generation,
          .strategy = arena.segment().strategy(),
          .access = read_only ? Access::read_only : Access::read_write,
          .ticket = ticket,
          .view = view},
         arena.memory().header().key, out);
  return bytes;
}

}  // namespace shmtensor::python
