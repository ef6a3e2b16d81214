#include "cuda/gpu.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/atomic.hpp"
#include "base/report.hpp"
#include "cuda/awaited_events.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

std::array<Atomic<const Gpu*>, Gpu::kMost> g_gpus{};
Mutex g_mutex;

}  // namespace

std::string to_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

std::optional<int> attribute_of(const Driver& driver, int number, int attribute) {
  int value = 0;
  const Result code = driver.cuDeviceGetAttribute(&value, attribute, number);
  if (code == kInvalidValue) return std::nullopt;
  driver.check(code,
               "get attribute " + std::to_string(attribute) + " of cuda:" + std::to_string(number));
  return value;
}

bool shares_virtual_memory(const Driver& driver, int number) {
  return driver.has_virtual_memory() &&
         attribute_of(driver, number, kHasVirtualMemory).value_or(0) != 0 &&
         attribute_of(driver, number, kHasDescriptorHandles).value_or(0) != 0;
}

// Drivers before CUDA 11.8 do not know the attribute, and support IPC on Linux.
bool has_ipc(const Driver& driver, int number) {
  return driver.has_ipc() && !on_wsl() && attribute_of(driver, number, kHasIpc).value_or(1) != 0;
}

bool is_used(const Driver& driver, int number) noexcept {
  unsigned flags = 0;
  int active = 0;
  return driver.cuDevicePrimaryCtxGetState != nullptr &&
         driver.cuDevicePrimaryCtxGetState(number, &flags, &active) == kSuccess && active != 0;
}

bool can_access_peer(const Driver& driver, int number, int peer) noexcept {
  int can = 0;
  return driver.cuDeviceCanAccessPeer != nullptr &&
         driver.cuDeviceCanAccessPeer(&can, number, peer) == kSuccess && can != 0;
}

int Gpu::count() {
  const Driver& driver = Driver::get();
  static const int count = [&driver] {
    int visible = 0;
    driver.check(driver.cuDeviceGetCount(&visible), "count the GPUs");
    return std::min(visible, kMost);
  }();
  return count;
}

const Gpu& Gpu::get(int number) {
  refuse_after_fork();
  if (number >= 0 && number < kMost) {
    if (const Gpu* gpu = g_gpus[static_cast<std::size_t>(number)].load()) return *gpu;
  }
  const int there = count();
  if (number < 0 || number >= there) {
    throw CudaError(kInvalidDevice, "there is no device cuda:" + std::to_string(number) +
                                        ": this process sees " + std::to_string(there) +
                                        "; check CUDA_VISIBLE_DEVICES");
  }
  const LockGuard guard(g_mutex);
  Atomic<const Gpu*>& place = g_gpus[static_cast<std::size_t>(number)];
  if (place.load() == nullptr) place.store(new Gpu(number));
  return *place.load();
}

const Gpu& Gpu::with_uuid(Uuid uuid) {
  refuse_after_fork();
  for (const auto& place : g_gpus) {
    const Gpu* gpu = place.load();
    if (gpu != nullptr && gpu->uuid() == uuid) return *gpu;
  }
  const Driver& driver = Driver::get();
  const int there = count();
  for (int number = 0; number < there; ++number) {
    Uuid other{};
    driver.check(driver.cuDeviceGetUuid_v2(&other, number), "get the UUID of a GPU");
    if (other == uuid) return get(number);
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  throw CudaError(kInvalidDevice,
                  "cannot use a tensor on " + to_text(uuid) +
                      ": this process does not see that GPU" +
                      (visible != nullptr ? std::string(" (CUDA_VISIBLE_DEVICES=") + visible + ")"
                                          : std::string()) +
                      "; make it visible, or send t.cpu()");
}

Gpu::Gpu(int number) : driver_(Driver::get()), number_(number) {
  const std::string name = "cuda:" + std::to_string(number);
  driver_.check(driver_.cuDeviceGetUuid_v2(&uuid_, number), "get the UUID of " + name);
  const std::string use = "use the primary context of " + name;
  driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, number), use);
  const Current current(*this);
  driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "create a stream on " + name);
  virtual_memory_ = shares_virtual_memory(driver_, number);
  ipc_ = cuda::has_ipc(driver_, number);
}

void Gpu::synchronize(ContextHandle context) const {
  const std::string what = "wait for cuda:" + std::to_string(number_);
  refuse_capturing(context, legacy_stream(), what);
  if (context == context_) wait_for_awaited(*this);
  const Current current(*this, context);
  driver_.check(driver_.cuCtxSynchronize(), what);
}

bool Gpu::is_capturing(ContextHandle context, StreamHandle stream) const {
  if (driver_.cuStreamIsCapturing == nullptr) return false;
  const Current current(*this, context);
  int status = 0;
  return driver_.cuStreamIsCapturing(stream, &status) == kCaptureImplicit || status != 0;
}

void Gpu::refuse_capturing(ContextHandle context, StreamHandle stream,
                           const std::string& what) const {
  if (is_capturing(context, stream)) driver_.check(kCaptureUnsupported, what);
}

std::string on(const Gpu& gpu) { return " on cuda:" + std::to_string(gpu.number()); }

// Destructors need it, so only a failure needs heap memory.
Current::Current(const Gpu& gpu, ContextHandle context) : driver_(gpu.driver()), relaxed_(driver_) {
  const Result code = driver_.cuCtxPushCurrent_v2(context);
  if (code == kSuccess) return;
  driver_.check(code, "make a context of cuda:" + std::to_string(gpu.number()) + " current");
}

Current::~Current() { static_cast<void>(driver_.cuCtxPopCurrent_v2(nullptr)); }

}  // namespace shmtensor::cuda
