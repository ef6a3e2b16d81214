#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/atomic.hpp"
#include "base/report.hpp"
#include "os/fork_mark.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

Atomic<pid_t> g_started{0};  // the process that loads the driver, or has loaded it; else 0
Atomic<const Driver*> g_loaded{nullptr};
Atomic<bool> g_forked{false};

const char* const kForked =
    "cannot use CUDA: this process was forked after CUDA was initialized in its parent, which the "
    "driver does not support; start workers with \"spawn\", \"forkserver\" or \"server\"";

const char* const kFailed =
    "the driver has failed: check that the kernel module nvidia_uvm is loaded (nvidia-modprobe -u "
    "-c=0), and what the kernel reports (dmesg); after a suspension, load the module again";

// Loads the functions of a group. Returns the name of a missing function, if any.
template <typename... Functions>
const char* find_all(void* library, std::initializer_list<std::pair<const char*, void**>> group) {
  const char* missing = nullptr;
  for (const auto& [name, place] : group) {
    *place = ::dlsym(library, name);
    if (*place == nullptr && missing == nullptr) missing = name;
  }
  // A group is loaded completely or not at all.
  if (missing != nullptr) {
    for (const auto& [name, place] : group) *place = nullptr;
  }
  return missing;
}

std::string advice_for(Result code) {
  switch (code) {
    case kOutOfMemory:
      return "; free tensors, or memory that other programs have on the GPU (nvidia-smi)";
    case kNotInitialized:
      return std::string("; ") + kForked;
    case kDeviceUnavailable:
      return "; another process uses the GPU exclusively (nvidia-smi -q -d COMPUTE)";
    case kInvalidDevice:
    case kPeerAccessUnsupported:
      return "; the GPUs have no peer access: copy through the host with t.cpu()";
    case kTooManyPeers:
      return "; the GPU is connected to as many peers as it can be";
    case kIllegalAddress:
      return "; an earlier kernel or copy accessed invalid memory, or wrote to a read-only tensor. "
             "This process cannot use the GPU any more";
    case kOperatingSystem:
      return "; often this process has no descriptor left (ulimit -n): each chunk of GPU memory "
             "takes one";
    case kUnknown:
      return std::string("; ") + kFailed;
    case kCaptureUnsupported:
    case kCaptureImplicit:
      return "; a stream is being captured into a CUDA graph: do this before or after the capture";
    case kNotPermitted:
    case kNotSupported:
      return on_wsl() ? "; WSL2 does not share GPU memory between processes: use host tensors"
                      : "; this GPU or its partition (MIG, vGPU) does not support sharing memory";
    default:
      return "";
  }
}

std::string reason_of(Result code) {
  switch (code) {
    case kStubLibrary:
      return "the toolkit's stub library was loaded instead of the driver; remove its folder from "
             "LD_LIBRARY_PATH";
    case kNoDevice:
      return "no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES";
    case kSystemNotReady:
      return "the GPUs are not ready; on machines with NVSwitch the fabric manager must run";
    case kDriverMismatch:
      return "the driver's library and its kernel module are of different versions; restart the "
             "machine, or reload the module";
    case kUnknown:
      return kFailed;
    case kNotInitialized:
      return "this process was forked from one that uses CUDA; start workers with \"spawn\", "
             "\"forkserver\" or \"server\"";
    default:
      return "";
  }
}

}  // namespace

bool on_wsl() {
  std::ifstream file("/proc/sys/kernel/osrelease");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.find("icrosoft") != std::string::npos;
}

// Of the results from 700 to 719, the others report that one call was invalid, and have no further
// effect.
bool has_stopped(Result code) noexcept {
  switch (code) {
    case kDeinitialized:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextDestroyed:
    case kAssert:
      return true;
    default:
      return code >= kHardwareStackError && code <= kLaunchFailed;
  }
}

void note_fork() noexcept {
  if (g_started.load() != 0) g_forked.store(true);
}

bool forked() noexcept { return g_forked.load(std::memory_order_relaxed) || is_raw_copy(); }

void refuse_after_fork() {
  const pid_t started = g_started.load();
  if (started != 0 && (forked() || started != ::getpid()))
    throw CudaUnavailable(kNotInitialized, kForked);
}

Driver::Driver() {
  const char* named = std::getenv("SHMTENSOR_LIBCUDA");
  path_ = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  load();
  init();
}

void Driver::load() {
  void* library = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw CudaUnavailable(
        kNoDevice, "no CUDA driver: cannot load " + path_ + ": " +
                       (reason != nullptr ? reason : "") +
                       "; install NVIDIA's driver (in a container: its runtime). Host tensors "
                       "do not need it");
  }
#define SHMTENSOR_PLACE(name, signature) {#name, reinterpret_cast<void**>(&this->name)},
  const char* missing = find_all(library, {SHMTENSOR_CUDA_REQUIRED(SHMTENSOR_PLACE)});
  find_all(library, {SHMTENSOR_CUDA_VIRTUAL_MEMORY(SHMTENSOR_PLACE)});
  find_all(library, {SHMTENSOR_CUDA_IPC(SHMTENSOR_PLACE)});
  find_all(library, {SHMTENSOR_CUDA_PINNING(SHMTENSOR_PLACE)});
  find_all(library, {SHMTENSOR_CUDA_OPTIONAL(SHMTENSOR_PLACE)});
#undef SHMTENSOR_PLACE
  if (missing != nullptr) {
    throw CudaUnavailable(kNoDevice, "no CUDA driver: " + path_ + " has no " + missing +
                                         "; it is too old, or not NVIDIA's library");
  }
}

void Driver::init() {
  if (const Result code = cuInit(0); code != kSuccess) {
    const std::string reason = reason_of(code);
    throw CudaUnavailable(code, "cannot start CUDA (" + path_ + "): cuInit returned " +
                                    name_of(code) + (reason.empty() ? "" : ": " + reason));
  }
  cuDriverGetVersion(&version_);
}

const Driver& Driver::get() {
  refuse_after_fork();
  // A failure is permanent: a driver does not appear while a program runs, and another attempt may
  // take long.
  static Mutex mutex;
  static std::optional<CudaUnavailable> failed;
  const LockGuard guard(mutex);
  if (const Driver* loaded = g_loaded.load()) return *loaded;
  if (failed) throw CudaUnavailable(*failed);
  // Before the driver is loaded, which may take a second: a child that another thread forks in that
  // time must not wait for the lock, which no thread of the child would release.
  g_started.store(::getpid());
  try {
    g_loaded.store(new Driver);
    return *g_loaded.load();
  } catch (const CudaUnavailable& error) {
    failed.emplace(error);
    g_started.store(0);
    throw;
  }
}

const Driver* Driver::usable() noexcept {
  return forked() || g_started.load() != ::getpid() ? nullptr : g_loaded.load();
}

std::string Driver::name_of(Result code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(code, &name) != kSuccess || name == nullptr) {
    return "error " + std::to_string(code);
  }
  static_cast<void>(cuGetErrorString(code, &text));
  return std::string(name) + " (" + std::to_string(code) + (text != nullptr ? ", " : "") +
         (text != nullptr ? text : "") + ")";
}

void Driver::check(Result code, const std::string& what) const {
  if (code == kSuccess) return;
  throw CudaError(code, "cannot " + what + ": " + name_of(code) + advice_for(code));
}

void Driver::report_failure(Result code, const char* what) const noexcept {
  if (code == kSuccess || code == kDeinitialized || code == kContextDestroyed) return;
  try {
    report(std::string("cannot ") + what + ": " + name_of(code));
  } catch (...) {
    report(what);
  }
}

RelaxedCapture::RelaxedCapture(const Driver& driver) noexcept
    : driver_(driver), before_(kCaptureModeRelaxed) {
  if (driver_.cuThreadExchangeStreamCaptureMode == nullptr) return;
  static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&before_));
}

RelaxedCapture::~RelaxedCapture() {
  if (driver_.cuThreadExchangeStreamCaptureMode == nullptr) return;
  static_cast<void>(driver_.cuThreadExchangeStreamCaptureMode(&before_));
}

}  // namespace shmtensor::cuda
