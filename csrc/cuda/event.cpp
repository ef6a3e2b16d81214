#include "cuda/event.hpp"

#include <string>

#include "base/report.hpp"

namespace shmtensor::cuda {
namespace {

std::string why_no_event(Result code) {
  switch (code) {
    case kInvalidContext:
      return "; the process that created it has the same pid as this process: the two run in "
             "separate PID namespaces (containers)";
    case kInvalidValue:
    case kMapFailed:
      return "; the process that created it has ended, the two have different /dev/shm "
             "(containers: --ipc=host), or this process has no descriptor left (ulimit -n). Events "
             "are needed only with st.cuda.set_sync(\"event\")";
    default:
      return "";
  }
}

}  // namespace

Event Event::create(const Gpu& gpu) {
  const Driver& driver = gpu.driver();
  if (!gpu.has_ipc()) {
    throw CudaUnavailable(kNotSupported,
                          "cannot create an event" + on(gpu) +
                              ": its driver does not support interprocess events (WSL2, attribute "
                              "IPC_EVENT_SUPPORTED); use st.cuda.set_sync(\"host\")");
  }
  // As everywhere before a call that returns an object, which is lost if the text fails after it.
  const std::string what = "create an interprocess event" + on(gpu);
  const Current current(gpu);
  EventHandle handle = nullptr;
  driver.check(driver.cuEventCreate(&handle, kEventNoTiming | kEventInterprocess), what);
  return {gpu, handle};
}

Event Event::after_all(const Gpu& gpu) {
  const Driver& driver = gpu.driver();
  const std::string what = "record an event after all work" + on(gpu);
  gpu.refuse_capturing(gpu.context(), legacy_stream(), what);
  const Current current(gpu);
  EventHandle handle = nullptr;
  driver.check(driver.cuEventCreate(&handle, kEventNoTiming), what);
  Event event(gpu, handle);
  driver.check(driver.cuCtxRecordEvent(gpu.context(), handle), what);
  return event;
}

Event Event::open(const Gpu& gpu, const IpcEventHandle& handle) {
  const Driver& driver = gpu.driver();
  if (!gpu.has_ipc()) {
    throw CudaError(kNotSupported, "cannot open an event of another process" + on(gpu) +
                                       ": its driver does not support interprocess events");
  }
  const Current current(gpu);
  EventHandle opened = nullptr;
  const Result code = driver.cuIpcOpenEventHandle(&opened, handle);
  if (code != kSuccess) {
    throw CudaError(code, "cannot open an event of another process" + on(gpu) + ": " +
                              driver.name_of(code) + why_no_event(code));
  }
  return {gpu, opened};
}

Event::~Event() {
  const Driver* driver = Driver::usable();
  if (driver == nullptr || handle_ == nullptr) return;
  try {
    const Current current(*gpu_);
    driver->report_failure(driver->cuEventDestroy_v2(handle_), "destroy an event");
  } catch (const std::exception& error) {
    report(error.what());
  }
}

IpcEventHandle Event::export_handle() const {
  const Current current(*gpu_);
  IpcEventHandle handle{};
  gpu_->driver().check(gpu_->driver().cuIpcGetEventHandle(&handle, handle_),
                       "share an event" + on(*gpu_));
  return handle;
}

void Event::record(StreamHandle stream) const {
  const std::string what = "record an event" + on(*gpu_);
  gpu_->refuse_capturing(gpu_->context(), stream, what);
  const Current current(*gpu_);
  const Result code = gpu_->driver().cuEventRecord(handle_, stream);
  if (code == kInvalidHandle) {
    throw CudaError(code, "cannot " + what + ": " + gpu_->driver().name_of(code) +
                              "; the stream was destroyed, or belongs to a context that is not the "
                              "device's primary one");
  }
  gpu_->driver().check(code, what);
}

// While the stream is being captured, or the legacy stream cannot be used because another one is,
// the caller waits instead: the work that it submits later has the same order.
void Event::let_wait(StreamHandle stream) const {
  if (!try_let_wait(stream)) synchronize();
}

bool Event::try_let_wait(StreamHandle stream) const {
  if (gpu_->is_capturing(stream)) return false;
  const Current current(*gpu_);
  gpu_->driver().check(gpu_->driver().cuStreamWaitEvent(stream, handle_, 0),
                       "let a stream wait" + on(*gpu_));
  return true;
}

bool Event::is_done() const {
  const Current current(*gpu_);
  const Result code = gpu_->driver().cuEventQuery(handle_);
  if (code == kNotReady) return false;
  gpu_->driver().check(code, "query an event" + on(*gpu_));
  return true;
}

void Event::synchronize() const {
  const Current current(*gpu_);
  gpu_->driver().check(gpu_->driver().cuEventSynchronize(handle_), "wait for an event" + on(*gpu_));
}

// An event and the stream that records it must be of one context, the stream that waits need not
// be.
void order(const Gpu& gpu, ContextHandle context, StreamHandle first, StreamHandle then) {
  const Driver& driver = gpu.driver();
  gpu.refuse_capturing(context, first, "let a stream wait" + on(gpu));
  gpu.refuse_capturing(gpu.context(), then, "let a stream wait" + on(gpu));
  const Current primary(gpu);
  const std::string what = "create an event" + on(gpu);
  EventHandle event = nullptr;
  Result code = kSuccess;
  {
    const Current current(gpu, context);
    driver.check(driver.cuEventCreate(&event, kEventNoTiming), what);
    code = driver.cuEventRecord(event, first);
  }
  if (code == kSuccess) code = driver.cuStreamWaitEvent(then, event, 0);
  static_cast<void>(driver.cuEventDestroy_v2(event));  // the queued wait stays valid
  driver.check(code, "let a stream wait" + on(gpu));
}

}  // namespace shmtensor::cuda
