// Streams that run asynchronously; otherwise no mistake in ordering would be detected.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "sim.hpp"

namespace shmtensor::sim {
namespace {

StreamHandle handle_of(const std::shared_ptr<Stream>& stream) {
  return reinterpret_cast<StreamHandle>(stream.get());
}

StreamHandle named(StreamHandle handle) {
  return handle == nullptr ? cuda::legacy_stream() : handle;
}

// One thread for each stream, for as long as the process lives.
void serve(const std::shared_ptr<Stream>& stream) {
  State& all = state();
  std::unique_lock lock(all.mutex);
  while (true) {
    // Other processes change what `ready` reads without a notification.
    while (stream->queue.empty() || !stream->queue.front().ready()) {
      all.changed.wait_for(lock, std::chrono::milliseconds(stream->queue.empty() ? 1000 : 1));
    }
    const Work work = std::move(stream->queue.front());
    lock.unlock();
    work.run();
    lock.lock();
    stream->queue.pop_front();
    ++stream->completed;
    all.changed.notify_all();
  }
}

// A test may block a stream without a context.
const Context* context_of_call() {
  return current() != nullptr ? current() : &state().contexts.front();
}

std::shared_ptr<Stream> make_stream(bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->context = context_of_call();
  stream->blocking = blocking;
  std::thread(serve, stream).detach();
  return stream;
}

// The legacy stream waits for all blocking streams of its context, and they wait for it.
std::function<bool()> after_others(const std::shared_ptr<Stream>& stream) {
  if (!stream->blocking) return [] { return true; };
  State& all = state();
  std::vector<std::pair<std::shared_ptr<Stream>, std::uint64_t>> before;
  for (const auto& [key, other] : all.streams) {
    if (other == stream || !other->blocking || other->context != stream->context) continue;
    if (stream->legacy || other->legacy) before.emplace_back(other, other->submitted);
  }
  return [before] {
    for (const auto& [other, count] : before) {
      if (other->completed < count) return false;
    }
    return true;
  };
}

}  // namespace

// A created stream may be used whatever context is current.
std::shared_ptr<Stream> find_stream(StreamHandle handle) {
  State& all = state();
  handle = named(handle);
  if (handle == cuda::legacy_stream() || handle == cuda::per_thread_stream()) {
    auto& stream = all.streams[{context_of_call(), handle}];
    if (!stream) {
      stream = make_stream(true);
      stream->legacy = handle == cuda::legacy_stream();
    }
    return stream;
  }
  for (const auto& [key, stream] : all.streams) {
    if (key.second == handle) return stream;
  }
  return nullptr;
}

Result submit(const std::shared_ptr<Stream>& stream, Work work) {
  if (const Result refused = refuse_legacy(*stream)) return refused;
  if (stream->capture) return stream->capture->broken ? cuda::kCaptureInvalidated : 0;
  const auto others = after_others(stream);
  const auto own = work.ready;
  work.ready = [others, own] { return others() && own(); };
  stream->queue.push_back(std::move(work));
  ++stream->submitted;
  state().changed.notify_all();
  return 0;
}

void finish(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Stream>& stream) {
  const std::uint64_t count = stream->submitted;
  state().changed.wait(lock, [&] { return stream->completed >= count; });
}

void finish_context(std::unique_lock<std::mutex>& lock, const Context* context) {
  std::vector<std::shared_ptr<Stream>> all;
  for (const auto& [key, stream] : state().streams) {
    if (key.first == context) all.push_back(stream);
  }
  for (const auto& stream : all) finish(lock, stream);
}

void finish_device(std::unique_lock<std::mutex>& lock, int device) {
  if (chosen("SHMTENSOR_SIM_FREEING", "immediate")) return;
  std::vector<std::shared_ptr<Stream>> all;
  for (const auto& [key, stream] : state().streams) {
    if (key.first->device == device) all.push_back(stream);
  }
  for (const auto& stream : all) finish(lock, stream);
}

}  // namespace shmtensor::sim

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimStream = shmtensor::sim::Stream;

namespace {

Result with_stream(StreamHandle handle,
                   const std::function<Result(std::shared_ptr<SimStream>)>& body) {
  const std::shared_ptr<SimStream> stream = find_stream(handle);
  return stream ? body(stream) : kInvalidHandle;
}

}  // namespace

SIM_EXPORT Result cuStreamCreate(StreamHandle* out, unsigned flags) {
  return call("cuStreamCreate", Needs::context, [&]() -> Result {
    if ((flags & ~kStreamNonBlocking) != 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    auto stream = make_stream(flags == 0);
    *out = handle_of(stream);
    state().streams[{stream->context, *out}] = std::move(stream);
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamDestroy_v2(StreamHandle handle) {
  return call("cuStreamDestroy_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    return std::erase_if(state().streams,
                         [&](const auto& one) { return one.first.second == handle; })
               ? kSuccess
               : kInvalidHandle;
  });
}

SIM_EXPORT Result cuStreamSynchronize(StreamHandle handle) {
  return call("cuStreamSynchronize", Needs::context, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    return with_stream(handle, [&](const auto& stream) -> Result {
      if (const Result refused = refuse_captured(*stream)) return refused;
      finish(lock, stream);
      return kSuccess;
    });
  });
}

SIM_EXPORT Result cuStreamQuery(StreamHandle handle) {
  return call("cuStreamQuery", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    return with_stream(handle, [&](const auto& stream) -> Result {
      if (const Result refused = refuse_captured(*stream)) return refused;
      return stream->completed == stream->submitted ? kSuccess : kNotReady;
    });
  });
}

/// Blocks the stream until the file exists, like a kernel that runs until the test ends it.
SIM_EXPORT Result sim_latch(StreamHandle handle, const char* path) {
  const std::lock_guard guard(state().mutex);
  return with_stream(handle, [&](const auto& stream) -> Result {
    const std::string file = path;
    return submit(stream, {[file] { return ::access(file.c_str(), F_OK) == 0; }, [] {}});
  });
}
