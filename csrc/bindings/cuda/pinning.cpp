#include "bindings/cuda/pinning.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/report.hpp"
#include "bindings/cuda/deferred_release.hpp"
#include "bindings/storage/lifetime.hpp"
#include "bindings/support/device_wait.hpp"
#include "bindings/support/gil.hpp"
#include "cuda/event.hpp"
#include "cuda/pinned_data.hpp"
#include "os/clock.hpp"
#include "os/mutex.hpp"

namespace shmtensor::python {
namespace {

/// A pinned block that a device may be reading or writing.
struct Kept {
  Backing backing;
  std::unique_ptr<cuda::PinnedBlock> pinned;
};

/// Blocks that are free after some work.
struct Group {
  std::vector<Kept> blocks;
  std::vector<cuda::Event> work;  ///< empty: not recorded
};

// The many small tensors of a batch are released together: one event is enough for most of them.
constexpr std::uint64_t kBurst = 100'000;  // nanoseconds

std::atomic<bool> g_kept{false};  // true if a block is kept

// The manager reclaims the blocks that are left at the end of the process.
struct KeptBlocks {
  Mutex mutex;
  Group newest GUARDED_BY(mutex);
  std::vector<Group> recorded GUARDED_BY(mutex);
  std::uint64_t recorded_at GUARDED_BY(mutex) = 0;

  /// Returns true if the newest group's work is to be recorded.
  bool add(Kept kept) {
    const LockGuard guard(mutex);
    newest.blocks.push_back(std::move(kept));
    g_kept.store(true);
    return monotonic_nanoseconds() - recorded_at >= kBurst;
  }
  /// Takes all groups, the newest one last.
  std::vector<Group> take() {
    const LockGuard guard(mutex);
    recorded.push_back(std::exchange(newest, {}));
    recorded_at = monotonic_nanoseconds();
    g_kept.store(false);
    return std::exchange(recorded, {});
  }
  void put_back(Group group) {
    const LockGuard guard(mutex);
    if (!group.work.empty()) {
      recorded.push_back(std::move(group));
    } else {
      std::ranges::move(group.blocks, std::back_inserter(newest.blocks));
    }
    g_kept.store(true);
  }
};
KeptBlocks& kept_blocks() {
  static auto* const made = new KeptBlocks;
  return *made;
}

// The streams that copy are unknown, so one event of each device covers them all.
std::vector<cuda::Event> work_so_far() {
  std::vector<cuda::Event> events;
  cuda::for_each_used([&events](int number) {
    events.reserve(events.size() + 1);
    events.push_back(cuda::Event::after_all(cuda::Gpu::get(number)));
  });
  return events;
}

// Returns true if the blocks are free. After an error it is unknown what is done; the next attempt
// may succeed, as after a capture.
bool has_ended(Group& group) noexcept {
  try {
    if (group.work.empty()) group.work = work_so_far();
    return std::ranges::all_of(group.work, [](const cuda::Event& one) { return one.is_done(); });
  } catch (const cuda::CudaError& error) {
    return cuda::has_stopped(error.code());
  } catch (...) {
    return false;
  }
}

// Without the GIL, for which a function of the program may be waiting on a stream.
void release_ended() noexcept {
  try {
    for (Group& group : kept_blocks().take()) {
      if (group.blocks.empty()) continue;
      if (!has_ended(group)) {
        kept_blocks().put_back(std::move(group));
        continue;
      }
      for (const Kept& kept : group.blocks) release_now(nullptr, kept.backing);
    }
  } catch (const std::bad_alloc&) {
    report("tensors stay allocated: no memory is left to record them");
  }
}

// The address of the storage's bytes in pinned memory, or 0 if they cannot be pinned. The first
// address stays valid as long as the storage.
std::uintptr_t pin_storage(const py::object& object) {
  Storage& storage = to_storage(object.ptr());
  const Backing& backing = storage.first;
  if (backing.kind != Backing::Kind::block || backing.device >= 0 ||
      backing.access == Access::read_only) {
    return 0;
  }
  const GilRelease release;
  const cuda::PinnedBlock* pinned = storage.pinned.load();
  if (pinned == nullptr) {
    try {
      auto made = std::make_unique<cuda::PinnedBlock>(cuda::pin(*backing.arena, backing.block));
      if (made->data == nullptr) return 0;
      cuda::PinnedBlock* other = nullptr;
      pinned = storage.pinned.compare_exchange_strong(other, made.get()) ? made.release() : other;
    } catch (const Error&) {
      return 0;
    }
  }
  return reinterpret_cast<std::uintptr_t>(pinned->data);
}

}  // namespace

void release_pinned_block(Storage* storage, const Backing& backing) noexcept {
  Kept kept{backing, std::unique_ptr<cuda::PinnedBlock>(storage->pinned.exchange(nullptr))};
  if (cuda::Driver::usable() == nullptr || is_finalizing()) {
    static_cast<void>(kept.pinned.release());  // the end of the process unpins it
    return release_block(storage, backing);
  }
  forget_object(storage, backing);
  try {
    if (!kept_blocks().add(std::move(kept))) return;
  } catch (const std::bad_alloc&) {
    return report("a tensor stays allocated: no memory is left to record it");
  }
  release_pinned_done();
}

void release_pinned_done() noexcept {
  if (!g_kept.load() || cuda::Driver::usable() == nullptr || is_capturing()) return;
  const GilRelease release;
  release_ended();
}

void add_pinning(py::module_& module) { module.def("cuda_pin", &pin_storage); }

}  // namespace shmtensor::python
