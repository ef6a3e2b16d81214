// Legacy IPC: 64 bytes that name an allocation of a living process.
//
// Handle: 8 bytes magic | pid:4 at byte 8, as in NVIDIA's | unused:4 | memory file:8 | offset:8 |
// size:8 | allocation:8
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

struct Fields {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t unused;
  std::uint64_t memory;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t allocation;
  std::uint64_t padding[2];
};
static_assert(sizeof(Fields) == sizeof(IpcMemoryHandle));
constexpr std::uint64_t kMagic = 0x6370'692d'6d69'73;

// SHMTENSOR_SIM_PID simulates PID namespaces in which two processes have the same number.
int shown_pid() { return static_cast<int>(setting("SHMTENSOR_SIM_PID", ::getpid())); }

// A file that exists as long as the allocation: `cuMemFree` of an exported one removes it.
std::string export_path(std::uint64_t allocation) {
  return directory() + "/export-" + std::to_string(allocation);
}

}  // namespace

namespace shmtensor::sim {

void forget_export(std::uint64_t allocation) { ::unlink(export_path(allocation).c_str()); }

}  // namespace shmtensor::sim

SIM_EXPORT Result cuIpcGetMemHandle(IpcMemoryHandle* out, DevicePtr pointer) {
  return call("cuIpcGetMemHandle", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = find_range(pointer);
    if (at == state().ranges.end() || at->second.kind != Kind::legacy) return kInvalidValue;
    if (!in_current_context(at->second)) return kInvalidValue;
    const Range& range = at->second;
    // Reported of Windows and WSL2: the call succeeds, and small tensors are zero (pytorch#156618,
    // #136200).
    if (!has_ipc()) std::memset(range.memory->bytes() + range.offset, 0, range.size);
    const Fields fields{.magic = kMagic,
                        .pid = shown_pid(),
                        .unused = ::getpid(),
                        .memory = range.memory->header().id,
                        .offset = range.offset,
                        .size = range.size,
                        .allocation = range.id,
                        .padding = {}};
    const int file = ::open(export_path(range.id).c_str(), O_CREAT | O_CLOEXEC | O_RDWR, 0600);
    if (file >= 0) ::close(file);
    std::memcpy(out, &fields, sizeof fields);
    return kSuccess;
  });
}

SIM_EXPORT Result cuIpcOpenMemHandle_v2(DevicePtr* out, IpcMemoryHandle handle, unsigned flags) {
  return call("cuIpcOpenMemHandle_v2", Needs::context, [&]() -> Result {
    if (flags != kLazyPeerAccess) return kInvalidValue;
    if (!has_ipc()) return kInvalidHandle;
    Fields fields{};
    std::memcpy(&fields, &handle, sizeof fields);
    if (fields.magic != kMagic) return kInvalidValue;
    if (fields.pid == shown_pid()) return kInvalidContext;
    const auto context = reinterpret_cast<ContextHandle>(current());
    const std::lock_guard guard(state().mutex);
    for (auto& [start, range] : state().ranges) {
      if (range.kind != Kind::imported || !(range.handle == handle)) continue;
      if (range.context != context) return kInvalidHandle;
      ++range.opens;
      *out = start;
      return kSuccess;
    }
    if (kills_owner(fields.unused)) return kInvalidHandle;
    if (::access(export_path(fields.allocation).c_str(), F_OK) != 0) return kInvalidValue;
    const bool opens = runs(fields.unused) || chosen("SHMTENSOR_SIM_DEAD_MEMORY", "opens");
    if (!opens) return kInvalidHandle;
    auto memory = Physical::open(Physical::path_of(fields.memory));
    if (!memory) return kInvalidValue;
    const int device = process_number(memory->header().device);
    if (device != current()->device && setting("SHMTENSOR_SIM_P2P", 1) == 0) {
      return kPeerAccessUnsupported;
    }
    const DevicePtr start = take_addresses(memory->size());
    if (start == 0) return kOutOfMemory;
    state().ranges[start] = {.size = fields.size,
                             .kind = Kind::imported,
                             .memory = std::move(memory),
                             .offset = fields.offset,
                             .id = new_id(),
                             .device = device,
                             .mapped = fields.size,
                             .opens = 1,
                             .handle = handle,
                             .context = context};
    *out = start;
    return kSuccess;
  });
}

SIM_EXPORT Result cuIpcCloseMemHandle(DevicePtr pointer) {
  return call("cuIpcCloseMemHandle", Needs::context, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    const auto at = state().ranges.find(pointer);
    if (at == state().ranges.end() || at->second.kind != Kind::imported) return kInvalidValue;
    if (--at->second.opens > 0) return kSuccess;
    finish_device(lock, current()->device);
    const std::uint64_t size = at->second.memory->size();
    state().ranges.erase(pointer);
    give_addresses(pointer, size);
    return kSuccess;
  });
}
