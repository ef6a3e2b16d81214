// Events, in one process and between processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "sim.hpp"

using namespace shmtensor::sim;   // NOLINT: what follows is the library's surface
using namespace shmtensor::cuda;  // NOLINT
using SimEvent = shmtensor::sim::Event;

namespace {

constexpr std::uint64_t kMagic = 0x7665'2d6d'6973;

struct Fields {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t unused;
  std::uint64_t id;
  std::uint64_t padding[5];
};
static_assert(sizeof(Fields) == sizeof(IpcEventHandle));

// A separate directory stands for /dev/shm, which the real driver needs for interprocess events.
std::string event_path(std::uint64_t id) {
  const char* place = std::getenv("SHMTENSOR_SIM_SHM");
  return (place != nullptr ? std::string(place) : directory()) + "/event-" + std::to_string(id);
}

EventFile* map_file(int descriptor) {
  void* start =
      ::mmap(nullptr, sizeof(EventFile), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return start != MAP_FAILED ? static_cast<EventFile*>(start) : nullptr;
}

// True as long as a thread of the process runs; a zombie has its first one.
bool has_threads(int pid) {
  struct stat tasks{};
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  return ::stat(path.c_str(), &tasks) == 0 && (runs(pid) || tasks.st_nlink > 3);
}

EventHandle add(std::shared_ptr<SimEvent> event) {
  const auto handle = reinterpret_cast<EventHandle>(event.get());
  state().events[handle] = std::move(event);
  return handle;
}

std::shared_ptr<SimEvent> find(EventHandle handle) {
  const auto at = state().events.find(handle);
  return at != state().events.end() ? at->second : nullptr;
}

std::uint64_t recorded(const SimEvent& event) {
  return event.file != nullptr ? event.file->recorded.load() : event.recorded;
}
std::uint64_t completed(const SimEvent& event) {
  for (const auto& [stream, count] : event.after) {
    if (stream->completed < count) return event.recorded - 1;
  }
  if (event.file == nullptr) return event.completed;
  const bool ends = chosen("SHMTENSOR_SIM_DEAD_EVENT", "completes") && !runs(event.file->owner);
  return ends ? event.file->recorded.load() : event.file->completed.load();
}

}  // namespace

SIM_EXPORT Result cuEventCreate(EventHandle* out, unsigned flags) {
  return call("cuEventCreate", Needs::context, [&]() -> Result {
    if ((flags & kEventInterprocess) != 0 && (flags & kEventNoTiming) == 0) return kInvalidValue;
    const std::lock_guard guard(state().mutex);
    if (state().events.size() >=
        static_cast<std::size_t>(setting("SHMTENSOR_SIM_EVENTS", 20'000))) {
      return kOutOfMemory;
    }
    auto event = std::make_shared<SimEvent>();
    event->context = current();
    event->flags = flags;
    *out = add(std::move(event));
    return kSuccess;
  });
}

SIM_EXPORT Result cuEventDestroy_v2(EventHandle handle) {
  return call("cuEventDestroy_v2", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    if (!event) return kInvalidHandle;
    if (event->file != nullptr && !event->imported) {
      event->file->destroyed.store(1);
      ::unlink(event->path.c_str());
    }
    state().events.erase(handle);  // the mapping remains: a queued wait may read it
    return kSuccess;
  });
}

SIM_EXPORT Result cuEventRecord(EventHandle handle, StreamHandle stream_handle) {
  return call("cuEventRecord", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    const std::shared_ptr<Stream> stream = find_stream(stream_handle);
    // "hEvent and hStream must be from the same context" (driver API, event management).
    if (!event || !stream || event->context != stream->context) return kInvalidHandle;
    if (const Result refused = refuse_legacy(*stream)) return refused;
    event->captured = stream->capture != nullptr;
    event->after.clear();
    const std::uint64_t number =
        event->file != nullptr ? event->file->recorded.fetch_add(1) + 1 : ++event->recorded;
    return submit(stream, {[] { return true; },
                           [event, number] {
                             if (event->file != nullptr) {
                               event->file->completed.store(number);
                             } else {
                               event->completed = number;
                             }
                           }});
  });
}

SIM_EXPORT Result cuCtxRecordEvent(ContextHandle handle, EventHandle event_handle) {
  return call("cuCtxRecordEvent", Needs::init, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(event_handle);
    if (!event || reinterpret_cast<ContextHandle>(
                      const_cast<shmtensor::sim::Context*>(event->context)) != handle) {
      return kInvalidHandle;
    }
    if (const Result refused = refuse_captured(*event->context)) return refused;
    event->captured = false;
    event->after.clear();
    for (const auto& [key, stream] : state().streams) {
      if (key.first == event->context) event->after.emplace_back(stream, stream->submitted);
    }
    event->completed = ++event->recorded;  // if the streams of `after` are
    return kSuccess;
  });
}

SIM_EXPORT Result cuEventQuery(EventHandle handle) {
  return call("cuEventQuery", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    if (!event) return kInvalidHandle;
    if (event->captured) return kCapturedEvent;
    return completed(*event) >= recorded(*event) ? kSuccess : kNotReady;
  });
}

SIM_EXPORT Result cuEventSynchronize(EventHandle handle) {
  return call("cuEventSynchronize", Needs::context, [&]() -> Result {
    std::unique_lock lock(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    if (!event) return kInvalidHandle;
    if (event->captured) return kCapturedEvent;
    const std::uint64_t number = recorded(*event);
    while (completed(*event) < number) {
      state().changed.wait_for(lock, std::chrono::milliseconds(1));
    }
    return kSuccess;
  });
}

SIM_EXPORT Result cuStreamWaitEvent(StreamHandle stream_handle, EventHandle handle, unsigned) {
  return call("cuStreamWaitEvent", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    const std::shared_ptr<Stream> stream = find_stream(stream_handle);
    if (!event || !stream) return kInvalidHandle;
    const std::uint64_t number = recorded(*event);
    return submit(stream, {[event, number] { return completed(*event) >= number; }, [] {}});
  });
}

SIM_EXPORT Result cuIpcGetEventHandle(IpcEventHandle* out, EventHandle handle) {
  return call("cuIpcGetEventHandle", Needs::context, [&]() -> Result {
    const std::lock_guard guard(state().mutex);
    const std::shared_ptr<SimEvent> event = find(handle);
    if (!event || (event->flags & kEventInterprocess) == 0) return kInvalidHandle;
    if (!has_ipc()) return kNotSupported;
    if (event->file == nullptr) {
      const std::uint64_t id = new_id();
      event->path = event_path(id);
      const int file = ::open(event->path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
      if (file < 0) return kOutOfMemory;
      const bool sized = ::ftruncate(file, sizeof(EventFile)) == 0;
      EventFile* mapped = sized ? map_file(file) : nullptr;
      ::close(file);
      if (mapped == nullptr) return kOutOfMemory;
      mapped->magic = kMagic ^ id;
      mapped->owner = ::getpid();
      mapped->recorded.store(event->recorded);
      mapped->completed.store(event->completed);
      event->file = mapped;
    }
    const Fields fields{.magic = kMagic,
                        .pid = ::getpid(),
                        .unused = 0,
                        .id = event->file->magic ^ kMagic,
                        .padding = {}};
    std::memcpy(out, &fields, sizeof fields);
    return kSuccess;
  });
}

SIM_EXPORT Result cuIpcOpenEventHandle(EventHandle* out, IpcEventHandle handle) {
  return call("cuIpcOpenEventHandle", Needs::context, [&]() -> Result {
    Fields fields{};
    std::memcpy(&fields, &handle, sizeof fields);
    if (fields.magic != kMagic) return kInvalidValue;
    if (fields.pid == ::getpid()) return kInvalidContext;
    // The event of a killed process can be opened, and never completes (seen).
    if (kills_owner(fields.pid)) {
      for (int i = 0; i < 10'000 && has_threads(fields.pid); ++i) ::usleep(1000);
    }
    const std::string path = event_path(fields.id);
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return kMapFailed;
    auto event = std::make_shared<SimEvent>();
    event->context = current();
    event->imported = true;
    event->flags = kEventInterprocess | kEventNoTiming;
    event->file = map_file(file);
    ::close(file);
    if (event->file == nullptr) return kOutOfMemory;
    const std::lock_guard guard(state().mutex);
    *out = add(std::move(event));
    return kSuccess;
  });
}
