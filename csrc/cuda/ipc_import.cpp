#include "cuda/ipc_import.hpp"

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/align.hpp"
#include "base/error.hpp"
#include "base/report.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

// Identifies one allocation: later, the same bytes may refer to another one at the same address.
using AllocationKey = std::pair<std::string, std::uint64_t>;

struct Cache {
  Mutex mutex;  // held while the driver opens the memory: a second thread needs the same mapping
  std::map<AllocationKey, std::weak_ptr<ImportedAllocation>> opened GUARDED_BY(mutex);
};
Cache& cache() {
  static Cache* const made = new Cache;
  return *made;
}

AllocationKey key_of(const IpcDescriptor& description) {
  return {std::string(reinterpret_cast<const char*>(description.handle.bytes),
                      sizeof description.handle.bytes),
          description.buffer_id};
}

std::string why_not_opened(Result code) {
  switch (code) {
    case kInvalidContext:
      return "; the owner has the same pid as this process: the two run in separate PID "
             "namespaces (containers). Use one PID namespace, or send memory that shmtensor "
             "allocated (st.asarray(x, copy=True))";
    case kInvalidHandle:
      return "; its owner has just ended, or it is already open in another context of this device. "
             "Send a copy (st.asarray(x, copy=True)), or t.cpu()";
    case kInvalidValue:
      return "; its owner has freed it, or runs on another machine";
    case kMapFailed:
    case kAlreadyMapped:
      return "; an older mapping of the same process exists: delete its tensors first";
    default:
      return "";
  }
}

}  // namespace

IpcMemoryHandle name_chunks(ArenaNumber arena, const ProcessIdentity& owner,
                            std::span<const ExportedChunk> chunks) {
  const std::uint64_t name[] = {arena, chunks.front().chunk, chunks.size(),
                                static_cast<std::uint64_t>(owner.pid), owner.start_time};
  IpcMemoryHandle handle{};
  static_assert(sizeof name <= sizeof handle.bytes);
  std::memcpy(handle.bytes, name, sizeof name);
  return handle;
}

ImportedAllocation::~ImportedAllocation() {
  if (mapped_ || start_ == 0) return;  // what is mapped unmaps itself
  const Driver* driver = Driver::usable();
  if (driver == nullptr) return;
  try {
    const Current current(gpu_);
    driver->report_failure(driver->cuIpcCloseMemHandle(start_),
                           "close GPU memory of another process");
  } catch (const std::exception& error) {
    report(error.what());
  }
}

namespace {

std::shared_ptr<ImportedAllocation> map_chunks(const Gpu& gpu,
                                               const ImportedAllocation::Source& source) {
  std::vector<PhysicalMemory> memory;
  for (const ExportedChunk& one : source.chunks) {
    const Fd descriptor = source.keeper.fetch(source.arena, one.chunk);
    memory.push_back(PhysicalMemory::import(gpu, descriptor, one.size));
  }
  return std::make_shared<ImportedAllocation>(
      gpu, MappedMemory::map(gpu, memory.data(), memory.size(), Access::read_write));
}

}  // namespace

std::shared_ptr<ImportedAllocation> ImportedAllocation::open(const Gpu& gpu,
                                                             const IpcDescriptor& description) {
  const Driver& driver = gpu.driver();
  if (!gpu.has_ipc()) {
    throw CudaError(kNotSupported, "cannot open a tensor of another process" + on(gpu) +
                                       ": its driver does not share memory by handles (attribute "
                                       "IPC_EVENT_SUPPORTED)");
  }
  auto made = std::make_shared<ImportedAllocation>(gpu, DevicePtr{0}, description.base_size);
  const Current current(gpu);
  const Result code =
      driver.cuIpcOpenMemHandle_v2(&made->start_, description.handle, kLazyPeerAccess);
  if (code != kSuccess) {
    made->start_ = 0;
    throw CudaError(
        code, "cannot open " + std::to_string(description.base_size) + " bytes of process " +
                  std::to_string(description.pid) + " on cuda:" + std::to_string(gpu.number()) +
                  ": cuIpcOpenMemHandle returned " + driver.name_of(code) + why_not_opened(code));
  }
  return made;
}

namespace {

bool is_sound(const IpcDescriptor& description, std::span<const ExportedChunk> chunks) noexcept {
  std::uint64_t sum = 0;
  for (const ExportedChunk& one : chunks) {
    if (one.chunk >= kMaxChunks || !fits(sum, one.size, description.base_size)) return false;
    sum += one.size;
  }
  return description.magic == kIpcDescriptorMagic && description.chunks == chunks.size() &&
         (chunks.empty() || sum == description.base_size) &&
         fits(description.offset, description.size, description.base_size);
}

}  // namespace

std::shared_ptr<ImportedAllocation> ImportedAllocation::get(const IpcDescriptor& description,
                                                            const Source& source,
                                                            bool producer_gone) {
  const auto require = [](bool sound) {
    if (sound) return;
    throw StaleHandle("cannot use a tensor's handle: the description of its memory is damaged");
  };
  require(is_sound(description, source.chunks));
  const Gpu& gpu = Gpu::with_uuid(description.device);
  Cache& here = cache();
  const LockGuard guard(here.mutex);
  std::weak_ptr<ImportedAllocation>& place = here.opened[key_of(description)];
  if (std::shared_ptr<ImportedAllocation> known = place.lock()) {
    require(known->size() == description.base_size);
    return known;
  }
  if (producer_gone && source.chunks.empty()) {
    throw ProducerGone(kInvalidValue,
                       "cannot open a tensor on cuda:" + std::to_string(gpu.number()) +
                           ": the exporting process " + std::to_string(description.pid) +
                           " has exited; it must stay alive until the tensor is "
                           "received, or send memory that shmtensor allocated "
                           "(st.asarray(x, copy=True))");
  }
  std::shared_ptr<ImportedAllocation> made =
      source.chunks.empty() ? open(gpu, description) : map_chunks(gpu, source);
  place = made;
  std::erase_if(here.opened, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

}  // namespace shmtensor::cuda
