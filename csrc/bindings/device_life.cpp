#include "bindings/device_life.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/report.hpp"
#include "bindings/gil.hpp"
#include "bindings/storage_life.hpp"
#include "cuda/in_place.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

// Blocks with which the device may not be done. What is left of them at the end of the process is
// the manager's, which hears of it when the driver has stopped everything.
struct Parked {
  std::mutex mutex;
  std::vector<Backing> all;
  std::atomic<bool> any{false};

  void add(const Backing& backing) {
    const std::lock_guard guard(mutex);
    all.push_back(backing);
    any.store(true);
  }
  std::vector<Backing> take() {
    const std::lock_guard guard(mutex);
    any.store(false);
    return std::exchange(all, {});
  }
};
Parked& parked() {
  static auto* const made = new Parked;
  return *made;
}

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

enum class Tell : bool { no, yes };

// Is everything done that this process has started there? What the driver has stopped for good is
// done, too. That it refuses to wait while a stream is captured into a graph is nothing to tell.
bool wait_for(int device, Tell tell) noexcept {
  try {
    cuda::Gpu::get(device).synchronize();
    return true;
  } catch (const cuda::CudaError& error) {
    if (cuda::has_stopped(error.code())) return true;
    if (tell == Tell::yes && error.code() != cuda::kCaptureUnsupported) report(error.what());
    return false;
  } catch (...) {
    return false;
  }
}

void let_go(const Storage* storage, const Backing& backing) noexcept {
  const bool orphaned = backing.arena->segment().header().orphaned.load() != 0;
  const SessionId session = backing.arena->memory().id();
  delete static_cast<std::shared_ptr<cuda::Opened>*>(backing.keeper);
  release_block(storage, backing);
  if (!orphaned) return;
  if (const auto there = Runtime::get().find(session)) there->drop_unused_orphans();
}

void park(const Storage* storage, const Backing& backing) noexcept {
  {
    LocalTable::Lock lock(backing.arena->local(), backing.block);
    void*& place = lock.object(backing.access);
    if (place == storage) place = nullptr;
  }
  try {
    parked().add(backing);
  } catch (const std::bad_alloc&) {
    report("GPU memory stays allocated: there is no memory to remember it");
  }
}

// One wait for each device, after all of its blocks were taken.
void retry() noexcept {
  std::vector<Backing> blocks = parked().take();
  std::sort(blocks.begin(), blocks.end(),
            [](const Backing& a, const Backing& b) { return a.device < b.device; });
  int device = -1;
  bool done = false;
  for (const Backing& backing : blocks) {
    if (backing.device != device) {
      device = backing.device;
      done = wait_for(device, Tell::no);
    }
    if (done) {
      let_go(nullptr, backing);
    } else {
      park(nullptr, backing);
    }
  }
}

}  // namespace

// What kernels and copies of this process still do to the memory must be done before anybody else
// may have it. At the interpreter's end that is left to the end of the process.
void release_device_block(const Storage* storage, const Backing& backing) noexcept {
  if (cuda::Driver::usable() == nullptr) {
    if (cuda::forked()) release_block(storage, backing);
    return;
  }
  if (is_finalizing()) return;
  const bool wait = storage->exposed.load();
  const bool orphaned = backing.arena->segment().header().orphaned.load() != 0;
  std::optional<GilRelease> release;
  if (wait || backing.keeper != nullptr || orphaned) release.emplace();
  if (wait && !wait_for(backing.device, Tell::yes)) return park(storage, backing);
  let_go(storage, backing);
  if (wait && parked().any.load()) retry();
}

void release_parked() noexcept {
  if (!parked().any.load() || cuda::Driver::usable() == nullptr) return;
  const GilRelease release;
  retry();
}

}  // namespace shmtensor::python
