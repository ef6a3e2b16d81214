#include "bindings/cuda/ipc_exports.hpp"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "bindings/cuda/deferred_release.hpp"
#include "bindings/session/session_access.hpp"
#include "bindings/storage/allocation.hpp"
#include "bindings/support/gil.hpp"
#include "cuda/contexts.hpp"
#include "cuda/ipc_import.hpp"
#include "cuda/pointer_attributes.hpp"
#include "os/fork_mark.hpp"
#include "os/futex.hpp"
#include "os/mutex.hpp"
#include "os/process.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

using cuda::DevicePtr;
using Name = std::pair<std::uint64_t, DevicePtr>;  ///< BUFFER_ID and base of an allocation

struct Export {
  Generation generation = 0;
  Exported where;
  PyObject* owner = nullptr;  ///< a reference
  Name allocation;            ///< unless in chunks
  std::vector<cuda::ExportedChunk> chunks;
};

struct CountedHandle {
  cuda::IpcMemoryHandle bytes;
  std::uint64_t users = 0;
};

/// Never destroyed: its thread may outlive `main`. A forked child makes a table of its own, which
/// stays empty: the parent releases its exports itself, and its lock may have been held.
struct Exports {
  Mutex mutex;
  /// Of all blocks, so that one word announces changes of any.
  Arena* arena GUARDED_BY(mutex) = nullptr;
  cuda::ChunkKeeper* keeper GUARDED_BY(mutex) = nullptr;  ///< of that arena's session
  std::map<BlockNumber, Export> all GUARDED_BY(mutex);
  std::map<Name, CountedHandle> handles GUARDED_BY(mutex);  ///< one an allocation
  cuda::ExportedChunks chunks GUARDED_BY(mutex);
  bool stopped GUARDED_BY(mutex) = false;
};
std::atomic<Exports*> g_exports{nullptr};

Exports& exports() {
  Exports* here = g_exports.load();
  if (here == nullptr) {
    auto made = std::make_unique<Exports>();
    if (g_exports.compare_exchange_strong(here, made.get())) here = made.release();
  }
  return *here;
}

// A fork handler must not allocate.
void forget_exports() noexcept { g_exports.store(nullptr); }

void remove_export(Exports& here, const Export& gone) REQUIRES(here.mutex) {
  if (!gone.chunks.empty()) {
    here.chunks.drop(here.arena->segment(), *here.keeper, gone.chunks);
    return;
  }
  const auto handle = here.handles.find(gone.allocation);
  if (--handle->second.users == 0) here.handles.erase(handle);
}

// Removes and returns the exports whose block no process holds and no message refers to.
std::vector<Export> take_freed(Exports& here) REQUIRES(here.mutex) {
  std::vector<Export> freed;
  for (auto at = here.all.begin(); at != here.all.end();) {
    const BlockWord word(here.arena->segment().record(at->first).word.load());
    if (word.live_at_generation(at->second.generation)) {
      ++at;
      continue;
    }
    remove_export(here, at->second);
    freed.push_back(std::move(at->second));
    at = here.all.erase(at);
  }
  return freed;
}

// Releases the owner with the context of its memory current: its destructor may call `cuMemFree`,
// which needs one. A context that was destroyed, and the memory with it, must not be used; so the
// driver is asked for the context only here.
void release_owner(const Export& made) {
  std::optional<cuda::Current> current;
  try {
    const cuda::Gpu& gpu = cuda::Gpu::get(made.where.device);
    current.emplace(gpu, cuda::context_of(gpu, cuda::address_of(made.where.data)));
  } catch (const std::exception&) {
    // The owner is released all the same, as at the end of the driver.
  }
  Py_DECREF(made.owner);
}

void release_owners(const std::vector<Export>& freed) {
  for (const Export& made : freed) release_owner(made);
}

// Waits until blocks are free, in a thread of Python's own, and releases the owners of their
// memory. Returns false if the thread is to end.
bool release_freed() {
  Exports& here = exports();
  std::vector<Export> freed;
  {
    const GilRelease release;
    while (true) {
      std::atomic<std::uint32_t>* wake_sequence = nullptr;
      std::uint32_t seen = 0;
      {
        const LockGuard guard(here.mutex);
        if (here.stopped) break;
        wake_sequence = &here.arena->segment().header().wake_sequence;
        seen = wake_sequence->load();
        freed = take_freed(here);
      }
      if (!freed.empty()) break;
      wait_for_change(*wake_sequence, seen);
    }
  }
  release_owners(freed);
  return !freed.empty();
}

// Return true if this process has the thread that waits. A raw copy has not, and the table, with
// its lock, is the parent's; likewise below.
bool stop_waiting() {
  if (is_raw_copy()) return false;
  Exports& here = exports();
  const GilRelease release;
  const LockGuard guard(here.mutex);
  here.stopped = true;
  if (here.arena != nullptr) here.arena->segment().notify_owner();
  return true;
}

void collect() {
  if (is_raw_copy()) return;
  release_deferred();
  Exports& here = exports();
  std::vector<Export> freed;
  {
    const GilRelease release;
    const LockGuard guard(here.mutex);
    if (here.arena != nullptr) freed = take_freed(here);
  }
  release_owners(freed);
}

// The driver's bytes for an allocation; asked for once, while any part of it is shared.
cuda::IpcMemoryHandle share_whole(Exports& here, const cuda::PointerAttributes& facts)
    REQUIRES(here.mutex) {
  const Name name(facts.buffer_id, facts.base);
  auto at = here.handles.find(name);
  if (at == here.handles.end()) {
    const cuda::Gpu& gpu = cuda::Gpu::get(facts.device);
    const cuda::Current current(gpu, facts.context);
    cuda::IpcMemoryHandle bytes{};
    gpu.driver().check(gpu.driver().cuIpcGetMemHandle(&bytes, facts.base),
                       "share an allocation of " + std::to_string(facts.base_size) +
                           " bytes on cuda:" + std::to_string(facts.device));
    at = here.handles.emplace(name, CountedHandle{bytes, 0}).first;
  }
  ++at->second.users;
  return at->second.bytes;
}

// The description of the memory before it is shared.
cuda::IpcDescriptor describe_memory(const cuda::PointerAttributes& facts, std::uint64_t pointer,
                                    std::uint64_t size) {
  const ProcessIdentity self = this_process();
  return {.magic = cuda::kIpcDescriptorMagic,
          .handle = {},
          .device = cuda::Gpu::get(facts.device).uuid(),
          .base_size = facts.base_size,
          .offset = pointer - facts.base,
          .size = size,
          .buffer_id = facts.buffer_id,
          .pid = self.pid,
          .chunks = 0,
          .start_time = self.start_time,
          .pid_namespace = pid_namespace()};
}

// Shares the memory and writes its description into the block, which no other process knows yet.
// Returns an earlier export in this block, without an owner if it was removed.
[[nodiscard]] Export add_export(Exports& here, const Block& block,
                                const cuda::PointerAttributes& facts,
                                cuda::IpcDescriptor description, Export made) {
  const LockGuard guard(here.mutex);
  if (here.arena == nullptr) {
    here.arena = block.arena;
    here.keeper = &Runtime::get().home().manager();
  }
  if (here.arena != block.arena) {
    throw OutOfMemory("cannot share an array without a copy: at most " +
                      std::to_string(here.arena->segment().capacity()) +
                      " arrays of a process can be exported; delete some");
  }
  const Segment& segment = block.arena->segment();
  // Before anything is counted, since this may throw.
  const std::span<std::byte> place = block.arena->bytes(block.number, Access::read_write);
  if (facts.in_chunks) {
    const DevicePtr start = facts.base + description.offset;
    auto range = here.chunks.share(cuda::Gpu::get(facts.device), segment, *here.keeper, start,
                                   description.size);
    description.base_size = range.size;
    description.offset = start - range.base;
    description.chunks = static_cast<std::uint32_t>(range.chunks.size());
    description.handle = cuda::name_chunks(segment.number(), this_process(), range.chunks);
    made.chunks = std::move(range.chunks);
  } else {
    description.handle = share_whole(here, facts);
    made.allocation = {facts.buffer_id, facts.base};
  }
  const std::size_t bytes = made.chunks.size() * sizeof(cuda::ExportedChunk);
  if (place.size() < sizeof description + bytes) throw StaleHandle("a block's record is damaged");
  std::memcpy(place.data(), &description, sizeof description);
  if (bytes != 0) std::memcpy(&place[sizeof description], made.chunks.data(), bytes);
  made.generation = block.arena->generation(block.number);
  Export before = std::exchange(here.all[block.number], std::move(made));
  if (before.owner != nullptr) remove_export(here, before);
  return before;
}

// A storage over `size` bytes at `pointer`, which `owner` keeps alive. A process that receives it
// can access the whole allocation, or all chunks that the bytes touch.
py::object export_memory(std::uint64_t pointer, std::uint64_t size, const py::object& owner) {
  cuda::PointerAttributes facts;
  cuda::IpcDescriptor description{};
  std::size_t chunks = 0;
  {
    const GilRelease release;
    facts = cuda::query_pointer(pointer, size);
    if (!facts.exportable) throw cuda::CudaError(cuda::kInvalidValue, facts.kind);
    description = describe_memory(facts, pointer, size);
    if (facts.in_chunks) {
      chunks = cuda::count_chunks(cuda::Gpu::get(facts.device), pointer, size);
    }
  }
  // A block of Strategy::external describes the memory to other processes.
  const Block block = allocate_block(
      home(), sizeof description + chunks * sizeof(cuda::ExportedChunk), Strategy::external);
  PyObject* const kept = py::object(owner).release().ptr();
  Export displaced;
  try {
    const GilRelease release;
    Export made;
    made.where = {reinterpret_cast<std::byte*>(pointer), facts.device};
    made.owner = kept;
    displaced = add_export(exports(), block, facts, description, std::move(made));
  } catch (...) {
    Py_DECREF(kept);
    block.arena->release(block.number);
    throw;
  }
  if (displaced.owner != nullptr) release_owner(displaced);
  return wrap_block(block.arena, block.number, Access::read_write);
}

}  // namespace

Exported exported(const Arena* arena, BlockNumber block) {
  Exports& here = exports();
  const GilRelease release;  // another thread may call the driver, or the manager, with the lock
  const LockGuard guard(here.mutex);
  const auto at = here.all.find(block);
  if (arena != here.arena || at == here.all.end()) {
    throw StaleHandle("cannot use a tensor's handle: its memory was released");
  }
  return at->second.where;
}

void add_ipc_exports(py::module_& module) {
  ::pthread_atfork(nullptr, nullptr, forget_exports);
  module.def("cuda_export", &export_memory);
  module.def("cuda_release_freed", &release_freed);
  module.def("cuda_stop_waiting", &stop_waiting);
  module.def("cuda_collect", &collect);
}

}  // namespace shmtensor::python
