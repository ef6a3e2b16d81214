#include "bindings/channel/pipe_hold.hpp"

#include "arena/block_word.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/storage/storage.hpp"
#include "bindings/support/initializer.hpp"
#include "os/fork_mark.hpp"
#include "queue/pipe_end.hpp"

namespace shmtensor::python {
namespace {

const Backing& block_backing(const py::object& storage) {
  if (!is_storage(storage.ptr())) throw py::type_error("a pipe has storages of blocks");
  const Backing& backing = as_storage(storage)->backing();
  if (backing.kind != Backing::Kind::block) throw py::type_error("a pipe is in shared memory");
  return backing;
}

QueueName name_of(const py::object& storage) {
  const Backing& backing = block_backing(storage);
  return {.arena = backing.arena->segment().number(),
          .block = backing.block,
          .generation = backing.arena->generation(backing.block)};
}

// The block of an end, with the queue into which it writes, and that which it reads; either may be
// None.
py::object new_pipe_end_storage(const py::object& written, const py::object& read) {
  py::object storage = new_shared_storage(sizeof(PipeEnd), true);
  const Backing& backing = as_storage(storage)->backing();
  auto& end = *reinterpret_cast<PipeEnd*>(backing.data);
  if (!written.is_none()) end.written.write(name_of(written));
  if (!read.is_none()) end.read.write(name_of(read));
  end.magic.store(kPipeEndMagic);
  backing.arena->set_contents(backing.block, PipeEnd::contents());
  return storage;
}

// Of a block that this process holds meanwhile.
Block another_reference(Arena* arena, BlockNumber number) noexcept {
  LocalTable::Lock lock(arena->local(), number);
  lock.set_count(lock.count() + 1);
  return {arena, number};
}

}  // namespace

PipeHold::PipeHold(const py::object& storage) {
  const Backing& backing = block_backing(storage);
  block_ = HeldBlock(another_reference(backing.arena, backing.block));
}

py::object PipeHold::storage() {
  Block block;
  {
    const LockGuard guard(mutex_);
    if (!block_) return py::none();
    block = another_reference(block_->arena, block_->number);
  }
  return adopt_block(block.arena, block.number, Access::read_write);
}

bool PipeHold::close() noexcept {
  HeldBlock block;
  {
    const LockGuard guard(mutex_);
    block = std::move(block_);
  }
  if (!block) return false;
  if (is_raw_copy()) {  // a thread of the parent may have the entry locked
    static_cast<void>(block.release());
    return false;
  }
  const PinnedArena arena(*block->arena);
  const BlockNumber number = block->number;
  const Generation generation = arena->generation(number);
  block.reset();
  const BlockWord word(arena->segment().record(number).word.load());
  return !word.live_at_generation(generation);
}

void add_pipes(py::module_& module) {
  py::class_<PipeHold>(module, "PipeHold")
      .def("__init__", initializer<PipeHold, const py::object&>(), kInitializer)
      .def("storage", &PipeHold::storage)
      .def("close", &PipeHold::close);
  module.def("new_pipe_end_storage", &new_pipe_end_storage);
}

}  // namespace shmtensor::python
