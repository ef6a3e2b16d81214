// Sharing of memory pools and of their allocations (driver API, "Stream Ordered Memory Allocator").
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "clients/pools.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

constexpr std::uint64_t kMagic = 0x6c6f'6f70'2d6d'6973;

/// What the descriptor of an exported pool contains.
struct PoolFile {
  std::uint64_t magic;
  std::uint64_t id;
  std::int32_t device;  ///< the machine's number
  std::int32_t handle_types;
};

struct PointerFields {
  std::uint64_t magic;
  std::uint64_t pool;
  std::uint64_t memory;
  std::uint64_t size;
  std::uint64_t padding[4];
};
static_assert(sizeof(PointerFields) == sizeof(PoolPointer));

}  // namespace

SIM_EXPORT Result cuMemPoolExportToShareableHandle(void* out, PoolHandle handle, int type,
                                                   unsigned long long flags) {
  return with_pool("cuMemPoolExportToShareableHandle", handle, [&](const Pool& pool) -> Result {
    if (flags != 0 || type != kHandleDescriptor || (pool.handle_types & type) == 0 ||
        pool.imported) {
      return kInvalidValue;
    }
    const PoolFile file{kMagic, pool.id, machine_number(pool.device), pool.handle_types};
    const int descriptor = ::memfd_create("pool", MFD_CLOEXEC);
    if (descriptor < 0 || ::write(descriptor, &file, sizeof file) != sizeof file) {
      return kOutOfMemory;
    }
    *static_cast<int*>(out) = descriptor;
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolImportFromShareableHandle(PoolHandle* out, void* handle, int type,
                                                     unsigned long long flags) {
  return call("cuMemPoolImportFromShareableHandle", Needs::init, [&]() -> Result {
    if (flags != 0 || type != kHandleDescriptor) return kInvalidValue;
    PoolFile file{};
    const int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    if (::pread(descriptor, &file, sizeof file, 0) != sizeof file || file.magic != kMagic) {
      return kInvalidValue;
    }
    const std::lock_guard guard(state().mutex);
    *out = add_pool({.device = process_number(file.device),
                     .handle_types = file.handle_types,
                     .id = file.id,
                     .imported = true});
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolExportPointer(PoolPointer* out, DevicePtr pointer) {
  return call("cuMemPoolExportPointer", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const auto at = state().ranges.find(pointer);
    if (at == state().ranges.end() || at->second.kind != Kind::pool) return kInvalidValue;
    const Pool* const pool = find_pool(at->second.pool);
    if (pool == nullptr || pool->imported || pool->handle_types == 0) return kInvalidValue;
    const PointerFields fields{
        kMagic, pool->id, at->second.memory->header().id, at->second.size, {}};
    std::memcpy(out, &fields, sizeof fields);
    return kSuccess;
  });
}

SIM_EXPORT Result cuMemPoolImportPointer(DevicePtr* out, PoolHandle handle, PoolPointer* data) {
  return with_pool("cuMemPoolImportPointer", handle, [&](const Pool& pool) -> Result {
    PointerFields fields{};
    std::memcpy(&fields, data, sizeof fields);
    if (!pool.imported || fields.magic != kMagic || fields.pool != pool.id) return kInvalidValue;
    auto memory = Physical::open(Physical::path_of(fields.memory));
    return memory ? place(out, fields.size, handle, std::move(memory)) : kInvalidValue;
  });
}
