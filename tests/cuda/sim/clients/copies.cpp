// Copies and fills that wait, and those that find out from the addresses where both sides are.
//
// "For transfers from pageable host memory to device memory, a stream sync is performed" and more
// (driver API, "API synchronization behavior"): the calls without a stream wait here until the work
// in the default stream is done, but for copies within the device, which need not.
#include <cstring>

#include "clients/declarations.hpp"
#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

bool on_device(DevicePtr pointer) {
  const std::lock_guard guard(state().mutex);
  return find_range(pointer) != state().ranges.end();
}

Result waited(Result code) { return code != 0 ? code : cuStreamSynchronize(nullptr); }

Result waited_on_host(DevicePtr pointer, Result code) {
  return on_device(pointer) ? code : waited(code);
}

void* host(DevicePtr pointer) { return reinterpret_cast<void*>(pointer); }

// A pattern of two or four bytes; addresses must be multiples of its size.
template <typename Item>
Result fill(const char* name, DevicePtr to, Item item, std::size_t count, StreamHandle stream) {
  return call(name, Needs::context, [&]() -> Result {
    if (to % sizeof(Item) != 0) return kInvalidValue;
    if (count == 0) return kSuccess;
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const auto pieces = resolve(to, count * sizeof(Item), true, problem);
    if (problem != 0) return problem;
    const auto found = find_stream(stream);
    if (!found) return kInvalidHandle;
    return submit(found, {[] { return true; },
                          [pieces, item] {
                            for (const Piece& piece : pieces) {
                              for (std::uint64_t i = 0; i < piece.size; i += sizeof item) {
                                std::memcpy(piece.bytes + i, &item, sizeof item);
                              }
                            }
                          }});
  });
}

}  // namespace

SIM_EXPORT Result cuMemcpyAsync(DevicePtr to, DevicePtr from, std::size_t size,
                                StreamHandle stream) {
  if (on_device(to) && on_device(from)) return cuMemcpyDtoDAsync_v2(to, from, size, stream);
  if (on_device(from)) return cuMemcpyDtoHAsync_v2(host(to), from, size, stream);
  return cuMemcpyHtoDAsync_v2(to, host(from), size, stream);
}

SIM_EXPORT Result cuMemcpy(DevicePtr to, DevicePtr from, std::size_t size) {
  return waited(cuMemcpyAsync(to, from, size, nullptr));
}

SIM_EXPORT Result cuMemcpyHtoD_v2(DevicePtr to, const void* from, std::size_t size) {
  return waited(cuMemcpyHtoDAsync_v2(to, from, size, nullptr));
}

SIM_EXPORT Result cuMemcpyDtoH_v2(void* to, DevicePtr from, std::size_t size) {
  return waited(cuMemcpyDtoHAsync_v2(to, from, size, nullptr));
}

SIM_EXPORT Result cuMemcpyDtoD_v2(DevicePtr to, DevicePtr from, std::size_t size) {
  return cuMemcpyDtoDAsync_v2(to, from, size, nullptr);
}

SIM_EXPORT Result cuMemcpyPeerAsync(DevicePtr to, ContextHandle, DevicePtr from, ContextHandle,
                                    std::size_t size, StreamHandle stream) {
  return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

SIM_EXPORT Result cuMemcpyPeer(DevicePtr to, ContextHandle, DevicePtr from, ContextHandle,
                               std::size_t size) {
  return cuMemcpyDtoDAsync_v2(to, from, size, nullptr);
}

SIM_EXPORT Result cuMemcpy2D_v2(const Copy2D* copy) {
  return waited(cuMemcpy2DAsync_v2(copy, nullptr));
}

SIM_EXPORT Result cuMemcpy2DUnaligned_v2(const Copy2D* copy) { return cuMemcpy2D_v2(copy); }

SIM_EXPORT Result cuMemsetD16Async(DevicePtr to, unsigned short value, std::size_t count,
                                   StreamHandle stream) {
  return fill("cuMemsetD16Async", to, value, count, stream);
}

SIM_EXPORT Result cuMemsetD32Async(DevicePtr to, unsigned value, std::size_t count,
                                   StreamHandle stream) {
  return fill("cuMemsetD32Async", to, value, count, stream);
}

// "The synchronous memset functions are asynchronous with respect to the host except when the
// target is pinned host memory or a Unified Memory region" (driver API, "API synchronization
// behavior").
SIM_EXPORT Result cuMemsetD8_v2(DevicePtr to, unsigned char value, std::size_t count) {
  return waited_on_host(to, cuMemsetD8Async(to, value, count, nullptr));
}

SIM_EXPORT Result cuMemsetD16_v2(DevicePtr to, unsigned short value, std::size_t count) {
  return waited_on_host(to, cuMemsetD16Async(to, value, count, nullptr));
}

SIM_EXPORT Result cuMemsetD32_v2(DevicePtr to, unsigned value, std::size_t count) {
  return waited_on_host(to, cuMemsetD32Async(to, value, count, nullptr));
}
