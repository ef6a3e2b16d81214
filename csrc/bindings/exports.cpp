#include "bindings/exports.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bindings/gil.hpp"
#include "bindings/home.hpp"
#include "bindings/storage.hpp"
#include "cuda/in_place.hpp"
#include "os/futex.hpp"
#include "os/process.hpp"

namespace shmtensor::python {
namespace {

struct Export {
  Generation generation = 0;
  Exported where;
  PyObject* owner = nullptr;  ///< a reference
  std::pair<std::uint64_t, cuda::DevicePtr> allocation;
};

struct Handle {
  cuda::IpcMemoryHandle bytes;
  std::uint64_t users = 0;
};

/// Never destroyed: its thread may outlive `main`.
struct Exports {
  std::mutex mutex;
  Arena* arena = nullptr;  ///< all blocks are of this one, so that one word tells of them all
  std::map<BlockNumber, Export> all;
  std::map<std::pair<std::uint64_t, cuda::DevicePtr>, Handle> handles;  ///< one an allocation
  bool stopped = false;
};
Exports& exports() {
  static auto* const made = new Exports;
  return *made;
}

// Of the blocks that nobody holds and no message refers to: their owners.
std::vector<PyObject*> take_freed(Exports& here) {
  std::vector<PyObject*> owners;
  for (auto at = here.all.begin(); at != here.all.end();) {
    const BlockWord word(here.arena->segment().record(at->first).word.load());
    if (word.live_at_generation(at->second.generation)) {
      ++at;
      continue;
    }
    owners.push_back(at->second.owner);
    const auto handle = here.handles.find(at->second.allocation);
    if (--handle->second.users == 0) here.handles.erase(handle);
    at = here.all.erase(at);
  }
  return owners;
}

py::list to_list(const std::vector<PyObject*>& owners) {
  py::list list;
  for (PyObject* owner : owners) list.append(py::reinterpret_steal<py::object>(owner));
  return list;
}

// Waits until something is free, in a thread that Python made for that. None: it is to end.
py::object wait_for_freed() {
  Exports& here = exports();
  std::vector<PyObject*> owners;
  {
    const GilRelease release;
    while (true) {
      std::atomic<std::uint32_t>& news = here.arena->segment().header().news;
      const std::uint32_t seen = news.load();
      {
        const std::lock_guard guard(here.mutex);
        if (here.stopped) break;
        owners = take_freed(here);
      }
      if (!owners.empty()) break;
      wait_for_change(news, seen);
    }
  }
  if (owners.empty()) return py::none();
  return to_list(owners);
}

void stop_waiting() {
  Exports& here = exports();
  const GilRelease release;
  const std::lock_guard guard(here.mutex);
  here.stopped = true;
  if (here.arena != nullptr) here.arena->segment().tell_owner();
}

py::list collect() {
  Exports& here = exports();
  std::vector<PyObject*> owners;
  {
    const GilRelease release;
    const std::lock_guard guard(here.mutex);
    if (here.arena != nullptr) owners = take_freed(here);
  }
  return to_list(owners);
}

Block take_block(std::uint64_t size) {
  const Place place(Strategy::in_place);
  Session& session = home();
  std::optional<Block> block = session.allocate_warm(size, place);
  if (!block) {
    const GilRelease release;
    block = session.allocate(size, place);
  }
  return *block;
}

// The driver's bytes for an allocation; asked for once, as long as something of it is shared.
cuda::IpcMemoryHandle handle_of(const cuda::PointerFacts& facts) {
  Exports& here = exports();
  const std::pair key(facts.buffer_id, facts.base);
  {
    const std::lock_guard guard(here.mutex);
    if (const auto at = here.handles.find(key); at != here.handles.end()) return at->second.bytes;
  }
  const cuda::Gpu& gpu = cuda::Gpu::get(facts.device);
  const cuda::Current current(gpu);
  cuda::IpcMemoryHandle bytes{};
  gpu.driver().check(gpu.driver().cuIpcGetMemHandle(&bytes, facts.base),
                     "share an allocation of " + std::to_string(facts.base_size) +
                         " bytes on cuda:" + std::to_string(facts.device));
  return bytes;
}

// A storage over `size` bytes at `pointer`, which `owner` keeps there. Whoever receives it can
// reach the whole allocation.
py::object export_in_place(std::uint64_t pointer, std::uint64_t size, const py::object& owner) {
  Exports& here = exports();
  cuda::PointerFacts facts;
  cuda::Description description{};
  {
    const GilRelease release;
    facts = cuda::facts_of(pointer);
    if (!facts.exportable) throw cuda::CudaError(cuda::kInvalidValue, facts.kind);
    if (!fits(pointer - facts.base, size, facts.base_size)) {
      throw cuda::CudaError(cuda::kInvalidValue,
                            "the array reaches over the end of its allocation");
    }
    const ProcessIdentity self = this_process();
    description = {.magic = cuda::kDescriptionMagic,
                   .handle = handle_of(facts),
                   .device = cuda::Gpu::get(facts.device).uuid(),
                   .base_size = facts.base_size,
                   .offset = pointer - facts.base,
                   .size = size,
                   .buffer_id = facts.buffer_id,
                   .pid = self.pid,
                   .reserved = 0,
                   .start_time = self.start_time,
                   .pid_namespace = pid_namespace()};
  }
  const Block block = take_block(sizeof description);
  std::memcpy(block.arena->address(block.number, Access::read_write), &description,
              sizeof description);
  auto* const data = reinterpret_cast<std::byte*>(pointer);
  {
    const std::lock_guard guard(here.mutex);
    if (here.arena == nullptr) here.arena = block.arena;
    if (here.arena != block.arena) {
      block.arena->release(block.number);
      throw OutOfMemory("cannot share an array in place: too many are shared so; drop some");
    }
    const std::pair key(facts.buffer_id, facts.base);
    Handle& handle = here.handles[key];
    handle.bytes = description.handle;
    ++handle.users;
    here.all[block.number] = {.generation = block.arena->generation(block.number),
                              .where = {data, facts.device},
                              .owner = py::object(owner).release().ptr(),
                              .allocation = key};
  }
  return wrap_in_place(block.arena, block.number, data, facts.device, size);
}

}  // namespace

Exported exported(const Arena* arena, BlockNumber block) {
  Exports& here = exports();
  const std::lock_guard guard(here.mutex);
  const auto at = here.all.find(block);
  if (arena != here.arena || at == here.all.end()) {
    throw StaleHandle("cannot use a tensor's handle: its memory has been let go");
  }
  return at->second.where;
}

void add_exports(py::module_& module) {
  module.def("cuda_export", &export_in_place);
  module.def("cuda_wait_for_freed", &wait_for_freed);
  module.def("cuda_stop_waiting", &stop_waiting);
  module.def("cuda_collect", &collect);
}

}  // namespace shmtensor::python
