#include "bindings/cuda/deferred_release.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/report.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/support/device_wait.hpp"
#include "bindings/support/gil.hpp"
#include "cuda/contexts.hpp"
#include "cuda/ipc_import.hpp"
#include "os/mutex.hpp"
#include "session/runtime.hpp"

namespace shmtensor::python {
namespace {

// True if a block is deferred. Not in the list, which is allocated for the first one.
std::atomic<bool> g_any{false};

// Blocks with which the device may not have finished. The manager reclaims those that are left at
// the end of the process, after the driver has stopped all work on them.
struct Deferred {
  Mutex mutex;
  std::vector<Backing> all GUARDED_BY(mutex);

  void add(const Backing& backing) {
    const LockGuard guard(mutex);
    all.push_back(backing);
    g_any.store(true);
  }
  std::vector<Backing> take() {
    const LockGuard guard(mutex);
    g_any.store(false);
    return std::exchange(all, {});
  }
};
Deferred& deferred() {
  static auto* const made = new Deferred;
  return *made;
}

enum class Report : bool { no, yes };

enum class Work : std::uint8_t {
  ended,    ///< all work that this process has started there is done, or stopped by the driver
  unknown,  ///< the wait failed
  stuck,    ///< so will each wait for the device
};

// A refusal because a stream is being captured into a graph is not reported.
Work wait_for(const Backing& backing, Report failure) noexcept {
  try {
    cuda::synchronize_users(cuda::Gpu::get(backing.device), cuda::address_of(backing.data));
    return Work::ended;
  } catch (const cuda::ProducerGone& error) {
    static std::atomic<bool> reported{false};
    if (failure == Report::yes && !reported.exchange(true)) report(error.what());
    return Work::stuck;
  } catch (const cuda::CudaError& error) {
    if (cuda::has_stopped(error.code())) return Work::ended;
    const bool captured =
        error.code() == cuda::kCaptureUnsupported || error.code() == cuda::kCaptureImplicit;
    if (failure == Report::yes && !captured) report(error.what());
    return Work::unknown;
  } catch (...) {
    return Work::unknown;
  }
}

void defer(const Storage* storage, const Backing& backing) noexcept {
  forget_object(storage, backing);
  try {
    deferred().add(backing);
  } catch (const std::bad_alloc&) {
    report("GPU memory stays allocated: no memory is left to record it");
  }
}

void retry() noexcept {
  int stuck = -1;  // a device for which no other wait is tried
  for (const Backing& backing : deferred().take()) {
    const Work work = backing.device == stuck ? Work::stuck : wait_for(backing, Report::no);
    if (work == Work::stuck) stuck = backing.device;
    if (work == Work::ended) {
      release_now(nullptr, backing);
    } else {
      defer(nullptr, backing);
    }
  }
}

}  // namespace

void release_now(const Storage* storage, const Backing& backing) noexcept {
  const bool orphaned = backing.arena->segment().header().orphaned.load() != 0;
  const SessionId session = backing.arena->memory().id();
  delete static_cast<std::shared_ptr<cuda::ImportedAllocation>*>(backing.keeper);
  release_block(storage, backing);
  if (!orphaned) return;
  if (const auto found = Runtime::get().find(session)) found->drop_unused_orphans();
}

// Kernels and copies of this process that use the memory must end before another process may have
// it. At the interpreter's end, the end of the process ensures that.
void release_device_block(const Storage* storage, const Backing& backing) noexcept {
  if (cuda::Driver::usable() == nullptr) {
    if (cuda::forked()) release_block(storage, backing);
    return;
  }
  if (is_finalizing()) return;
  const bool wait = storage->exposed.load();
  if (wait && is_capturing()) return defer(storage, backing);
  const bool orphaned = backing.arena->segment().header().orphaned.load() != 0;
  std::optional<GilRelease> release;
  if (wait || backing.keeper != nullptr || orphaned) release.emplace();
  if (wait && wait_for(backing, Report::yes) != Work::ended) return defer(storage, backing);
  release_now(storage, backing);
  if (wait && g_any.load()) retry();
}

void release_deferred() noexcept {
  if (!g_any.load() || cuda::Driver::usable() == nullptr || is_capturing()) return;
  const GilRelease release;
  retry();
}

}  // namespace shmtensor::python
