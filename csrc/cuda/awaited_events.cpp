#include "cuda/awaited_events.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <string>
#include <vector>

#include "os/clock.hpp"
#include "os/mutex.hpp"

namespace shmtensor::cuda {
namespace {

struct Awaited {
  std::atomic<std::size_t> count{0};  // of `all`, for readers without the mutex
  Mutex mutex;
  std::vector<const AwaitedEvent*> all GUARDED_BY(mutex);
  std::uint64_t last GUARDED_BY(mutex) = 0;  // number of the newest
};
Awaited& awaited() {
  static auto* const made = new Awaited;
  return *made;
}

[[noreturn]] void throw_stuck(const Gpu& gpu, const Maker& maker) {
  throw ProducerGone(
      kNotReady, "cannot wait for cuda:" + std::to_string(gpu.number()) +
                     ": its default stream waits for work of process " +
                     std::to_string(maker.process.pid) +
                     ", which has ended before the work was complete, and never continues; restart "
                     "this process, or send with st.cuda.set_sync(\"host\")");
}

}  // namespace

void AwaitedEvent::start() {
  if (maker_.process.pid == 0) return;
  Awaited& here = awaited();
  const LockGuard guard(here.mutex);
  if (number_ != 0) return;
  here.all.push_back(this);
  number_ = ++here.last;
  here.count.store(here.all.size());
}

AwaitedEvent::~AwaitedEvent() {
  if (number_ == 0 || forked()) return;
  Awaited& here = awaited();
  const LockGuard guard(here.mutex);
  std::erase(here.all, this);
  here.count.store(here.all.size());
}

// Under the mutex: no event is destroyed while it is queried. A query takes about a microsecond.
void wait_for_awaited(const Gpu& gpu) {
  Awaited& here = awaited();
  if (here.count.load() == 0) return;
  const std::uint64_t start = monotonic_nanoseconds();
  std::uint64_t newest = 0;
  while (true) {
    bool done = true;
    {
      const LockGuard guard(here.mutex);
      if (newest == 0) newest = here.last;
      for (const AwaitedEvent* const one : here.all) {
        if (one->number_ > newest || &one->event_.gpu() != &gpu || one->event_.is_done()) continue;
        done = false;
        // Asked again: the event may have completed between the two queries.
        if (one->maker_.has_ended() && !one->event_.is_done()) throw_stuck(gpu, one->maker_);
      }
    }
    if (done) return;
    // An eighth longer than the work at most, so a long wait costs little.
    const std::uint64_t waited = monotonic_nanoseconds() - start;
    const auto pause = std::clamp<std::uint64_t>(waited / 8, 20'000, 2'000'000);
    const timespec moment{0, static_cast<long>(pause)};
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace shmtensor::cuda
