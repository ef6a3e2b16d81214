// Copies and fills, in streams. Host memory is read and written when the work runs, as a real
// driver may do it: the caller keeps both sides until the copy is done.
#include <unistd.h>

#include <cstring>

#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT

namespace {

constexpr std::size_t kMostPitch = 0x7fffffff;

using Pieces = std::vector<Piece>;

Piece on_host(const void* start, std::size_t size) {
  return {nullptr, static_cast<unsigned char*>(const_cast<void*>(start)), size};
}

void move(const Pieces& to, const Pieces& from) {
  // SHMTENSOR_SIM_LATE: microseconds by which a busy device delays its reads of host memory.
  const long late = setting("SHMTENSOR_SIM_LATE", 0);
  if (late != 0 && !from.empty() && !from.front().memory) ::usleep(static_cast<unsigned>(late));
  std::vector<unsigned char> bytes;
  for (const Piece& piece : from) {
    bytes.insert(bytes.end(), piece.bytes, piece.bytes + piece.size);
  }
  const unsigned char* next = bytes.data();
  for (const Piece& piece : to) {
    std::memcpy(piece.bytes, next, piece.size);
    next += piece.size;
  }
}

bool leaves_registration(const void* start, std::size_t size) {
  const auto* const found = find_host_memory(reinterpret_cast<std::uintptr_t>(start));
  if (found == nullptr || !found->second.registered || size == 0) return false;
  return found != find_host_memory(reinterpret_cast<std::uintptr_t>(start) + size - 1);
}

Result queue(StreamHandle handle, std::function<void()> run) {
  const auto stream = find_stream(handle);
  if (!stream) return kInvalidHandle;
  return submit(stream, {[] { return true; }, std::move(run)});
}

Result queue_move(StreamHandle stream, const Pieces& to, const Pieces& from) {
  // "The memory areas may not overlap"; the result is not documented.
  if (overlap(to, from)) return kInvalidValue;
  return queue(stream, [to, from] { move(to, from); });
}

// With pageable memory: "API synchronization behavior" of CUDA 9.2 to 11: "will return only once
// the copy has completed"; of CUDA 12.2 on: "might be synchronous". So SHMTENSOR_SIM_PAGEABLE=sync
// is a switch. Other libraries rely on the older text.
Result wait_if_pageable(Result code, const void* host, StreamHandle handle) {
  if (code != kSuccess || !chosen("SHMTENSOR_SIM_PAGEABLE", "sync")) return code;
  std::unique_lock lock(state().mutex);
  const auto stream = find_stream(handle);
  if (find_host_memory(reinterpret_cast<std::uintptr_t>(host)) == nullptr) finish(lock, stream);
  return kSuccess;
}

// The rows of one side, one after the other.
Pieces rows_of(const Copy2D& copy, const Copy2D::Side& side, bool write, Result& problem) {
  Pieces all;
  for (std::size_t row = 0; row < copy.height && problem == 0; ++row) {
    const std::size_t offset = row * side.pitch;
    if (side.type == kMemoryTypeHost) {
      all.push_back(on_host(static_cast<const char*>(side.host) + offset, copy.width));
      continue;
    }
    for (Piece& piece : resolve(side.device + offset, copy.width, write, problem)) {
      all.push_back(std::move(piece));
    }
  }
  return all;
}

bool sound(const Copy2D& copy, const Copy2D::Side& side) {
  const auto most = static_cast<std::size_t>(setting("SHMTENSOR_SIM_PITCH", kMostPitch));
  return side.x == 0 && side.y == 0 && side.array == nullptr && side.pitch >= copy.width &&
         side.pitch <= most && (side.type == kMemoryTypeHost || side.type == kMemoryTypeDevice);
}

}  // namespace

SIM_EXPORT Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, std::size_t size,
                                       StreamHandle stream) {
  const Result code = call("cuMemcpyHtoDAsync_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const Pieces targets = resolve(to, size, true, problem);
    if (problem == 0 && leaves_registration(from, size)) return kInvalidValue;
    return problem != 0 ? problem : queue_move(stream, targets, {on_host(from, size)});
  });
  return wait_if_pageable(code, from, stream);
}

SIM_EXPORT Result cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, std::size_t size,
                                       StreamHandle stream) {
  const Result code = call("cuMemcpyDtoHAsync_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const Pieces sources = resolve(from, size, false, problem);
    return problem != 0 ? problem : queue_move(stream, {on_host(to, size)}, sources);
  });
  return wait_if_pageable(code, to, stream);
}

SIM_EXPORT Result cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, std::size_t size,
                                       StreamHandle stream) {
  return call("cuMemcpyDtoDAsync_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const Pieces sources = resolve(from, size, false, problem);
    if (problem != 0) return problem;
    const Pieces targets = resolve(to, size, true, problem);
    return problem != 0 ? problem : queue_move(stream, targets, sources);
  });
}

SIM_EXPORT Result cuMemcpy2DAsync_v2(const Copy2D* copy, StreamHandle stream) {
  return call("cuMemcpy2DAsync_v2", Needs::context, [&]() -> Result {
    if (!sound(*copy, copy->from) || !sound(*copy, copy->to)) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const Pieces sources = rows_of(*copy, copy->from, false, problem);
    const Pieces targets = rows_of(*copy, copy->to, true, problem);
    return problem != 0 ? problem : queue_move(stream, targets, sources);
  });
}

SIM_EXPORT Result cuMemsetD8Async(DevicePtr to, unsigned char value, std::size_t size,
                                  StreamHandle stream) {
  return call("cuMemsetD8Async", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    Result problem = 0;
    const Pieces targets = resolve(to, size, true, problem);
    if (problem != 0) return problem;
    return queue(stream, [targets, value] {
      for (const Piece& piece : targets) std::memset(piece.bytes, value, piece.size);
    });
  });
}
